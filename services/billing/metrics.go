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
	m := &metrics{
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billing_webhooks_total", Help: "Webhook events of the payment processor by outcome.",
		}, []string{"outcome"}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billing_entitlement_pushes_total", Help: "Pushes of entitlements to authquota by outcome.",
		}, []string{"outcome"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "billing_entitlements_pending", Help: "Accounts with an entitlement that authquota has not acknowledged.",
		}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "billing_processor_seconds", Help: "Duration of calls to the payment processor by operation and outcome.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"operation", "outcome"}),
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billing_reconciles_total", Help: "Reconciliations in this process by outcome.",
		}, []string{"outcome"}),
		differences: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billing_reconcile_differences_total", Help: "Differences found by reconciliations in this process by field.",
		}, []string{"field"}),
	}
	// Create every series now: rate() ignores the first value of a series, so an alert would miss
	// the first event.
	for _, outcome := range httpapi.Outcomes {
		m.webhooks.WithLabelValues(outcome)
	}
	for _, outcome := range reconcile.PushOutcomes {
		m.pushes.WithLabelValues(outcome)
	}
	for _, outcome := range []string{complete, incomplete} {
		m.reconciles.WithLabelValues(outcome)
	}
	registry.MustRegister(m.webhooks, m.pushes, m.pending, m.calls, m.reconciles, m.differences)
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
