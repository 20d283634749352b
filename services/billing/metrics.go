package billing

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/reconcile"
)

// Outcomes of reconciliations.
const (
	complete   = "complete"
	incomplete = "incomplete" // the processor failed for some accounts
)

// metrics holds the service's own metrics. None has a label for the account.
type metrics struct {
	webhooks    *prometheus.CounterVec
	pushes      *prometheus.CounterVec
	pending     prometheus.Gauge
	calls       *prometheus.HistogramVec
	reconciles  *prometheus.CounterVec
	differences *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	// Create the series of all outcomes now: rate() ignores the first value of a series, so an alert
	// would miss the first event.
	counter := func(name, help, label string, outcomes ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, outcome := range outcomes {
			c.WithLabelValues(outcome)
		}
		registry.MustRegister(c)
		return c
	}
	m := &metrics{
		webhooks: counter("billing_webhooks_total", "Webhook events of the payment processor by outcome.",
			"outcome", httpapi.Outcomes...),
		pushes: counter("billing_entitlement_pushes_total", "Pushes of entitlements to authquota by outcome.",
			"outcome", reconcile.PushOutcomes...),
		reconciles: counter("billing_reconciles_total", "Reconciliations in this process by outcome.",
			"outcome", complete, incomplete),
		differences: counter("billing_reconcile_differences_total",
			"Differences found by reconciliations in this process by field.", "field"),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "billing_entitlements_pending", Help: "Accounts with an entitlement that authquota has not acknowledged.",
		}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "billing_processor_seconds", Help: "Duration of calls to the payment processor by operation and outcome.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"operation", "outcome"}),
	}
	registry.MustRegister(m.pending, m.calls)
	return m
}

func count(outcomes *prometheus.CounterVec) func(outcome string) {
	return func(outcome string) { outcomes.WithLabelValues(outcome).Inc() }
}

func (m *metrics) reconciled(report api.BillingReport, err error) {
	outcome := complete
	if err != nil || report.Failed > 0 {
		outcome = incomplete
	}
	m.reconciles.WithLabelValues(outcome).Inc()
	for _, d := range report.Differences {
		m.differences.WithLabelValues(d.Field).Inc()
	}
}

func (m *metrics) called(operation string, duration time.Duration, err error) {
	outcome, unavailable := "ok", new(problem.Error)
	switch {
	case errors.As(err, &unavailable):
		outcome = "away"
	case err != nil:
		outcome = "refused"
	}
	m.calls.WithLabelValues(operation, outcome).Observe(duration.Seconds())
}
