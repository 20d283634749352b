package billing

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/entitle"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/subscription"
)

// How comparisons with the processor end.
const (
	complete   = "complete"
	incomplete = "incomplete" // of some accounts the processor did not say
)

// metrics tell how the service does; never of one account.
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
			Name: "billing_webhooks_total", Help: "Announcements of the payment processor, by how they ended.",
		}, []string{"outcome"}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billing_entitlement_pushes_total", Help: "Attempts to tell authquota what an account has paid for, by how they ended.",
		}, []string{"outcome"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "billing_entitlements_pending", Help: "Accounts whose entitlement authquota has yet to be told.",
		}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "billing_processor_seconds", Help: "Time of what the payment processor was asked for, by what it was and how it ended.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"operation", "outcome"}),
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billing_reconciles_total", Help: "Comparisons with the payment processor in this process, by how they ended.",
		}, []string{"outcome"}),
		differences: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "billing_reconcile_differences_total", Help: "Differences that comparisons in this process found, by field.",
		}, []string{"field"}),
	}
	// The first of a series that comes into being with it is in no rate, and no alert would see it.
	for _, outcome := range httpapi.Outcomes {
		m.webhooks.WithLabelValues(outcome)
	}
	for _, outcome := range entitle.Outcomes {
		m.pushes.WithLabelValues(string(outcome))
	}
	for _, outcome := range []string{complete, incomplete} {
		m.reconciles.WithLabelValues(outcome)
	}
	registry.MustRegister(m.webhooks, m.pushes, m.pending, m.calls, m.reconciles, m.differences)
	return m
}

func (m *metrics) webhook(outcome string)       { m.webhooks.WithLabelValues(outcome).Inc() }
func (m *metrics) push(outcome entitle.Outcome) { m.pushes.WithLabelValues(string(outcome)).Inc() }
func (m *metrics) owed(pending int)             { m.pending.Set(float64(pending)) }

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

// timed measures a processor.
type timed struct {
	of processor.Processor
	m  *metrics
}

func (t timed) took(operation string, since time.Time, err error) {
	outcome, away := "ok", new(problem.Error)
	switch {
	case errors.As(err, &away):
		outcome = "away"
	case err != nil:
		outcome = "refused"
	}
	t.m.calls.WithLabelValues(operation, outcome).Observe(time.Since(since).Seconds())
}

func measured[T any](t timed, operation string, ask func() (T, error)) (T, error) {
	since := time.Now()
	out, err := ask()
	t.took(operation, since, err)
	return out, err
}

func (t timed) Customer(ctx context.Context, account, email, attempt string) (string, error) {
	return measured(t, "customer", func() (string, error) { return t.of.Customer(ctx, account, email, attempt) })
}

func (t timed) Checkout(ctx context.Context, order processor.Order) (processor.Session, error) {
	return measured(t, "checkout", func() (processor.Session, error) { return t.of.Checkout(ctx, order) })
}

func (t timed) Portal(ctx context.Context, customer, returnURL string) (string, error) {
	return measured(t, "portal", func() (string, error) { return t.of.Portal(ctx, customer, returnURL) })
}

func (t timed) Subscription(ctx context.Context, id string) (subscription.State, error) {
	return measured(t, "subscription", func() (subscription.State, error) { return t.of.Subscription(ctx, id) })
}

func (t timed) Subscriptions(ctx context.Context, customer string) ([]string, error) {
	return measured(t, "subscriptions", func() ([]string, error) { return t.of.Subscriptions(ctx, customer) })
}

func (t timed) Charge(ctx context.Context, invoice string) error {
	_, err := measured(t, "charge", func() (struct{}, error) { return struct{}{}, t.of.Charge(ctx, invoice) })
	return err
}

func (t timed) SetCancel(ctx context.Context, id string, cancel bool) error {
	_, err := measured(t, "set_cancel", func() (struct{}, error) { return struct{}{}, t.of.SetCancel(ctx, id, cancel) })
	return err
}

func (t timed) CheckOffer(ctx context.Context) error {
	_, err := measured(t, "offer", func() (struct{}, error) { return struct{}{}, t.of.CheckOffer(ctx) })
	return err
}
