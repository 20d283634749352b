package billing

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/push"
	"opportunity.internal/services/billing/internal/subscription"
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
	// Create every series now: rate() ignores the first value of a series, so an alert would miss the first event.
	for _, outcome := range httpapi.Outcomes {
		m.webhooks.WithLabelValues(outcome)
	}
	for _, outcome := range push.Outcomes {
		m.pushes.WithLabelValues(string(outcome))
	}
	for _, outcome := range []string{complete, incomplete} {
		m.reconciles.WithLabelValues(outcome)
	}
	registry.MustRegister(m.webhooks, m.pushes, m.pending, m.calls, m.reconciles, m.differences)
	return m
}

func (m *metrics) webhook(outcome string)    { m.webhooks.WithLabelValues(outcome).Inc() }
func (m *metrics) push(outcome push.Outcome) { m.pushes.WithLabelValues(string(outcome)).Inc() }
func (m *metrics) setPending(pending int)    { m.pending.Set(float64(pending)) }

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

// instrumented records the duration and outcome of every call to a processor.
type instrumented struct {
	next processor.Processor
	m    *metrics
}

func (t instrumented) observe(operation string, since time.Time, err error) {
	outcome, unavailable := "ok", new(problem.Error)
	switch {
	case errors.As(err, &unavailable):
		outcome = "away"
	case err != nil:
		outcome = "refused"
	}
	t.m.calls.WithLabelValues(operation, outcome).Observe(time.Since(since).Seconds())
}

func measure[T any](t instrumented, operation string, call func() (T, error)) (T, error) {
	since := time.Now()
	out, err := call()
	t.observe(operation, since, err)
	return out, err
}

func (t instrumented) Customer(ctx context.Context, account, email, attempt string) (string, error) {
	return measure(t, "customer", func() (string, error) { return t.next.Customer(ctx, account, email, attempt) })
}

func (t instrumented) Checkout(ctx context.Context, order processor.Order) (processor.Session, error) {
	return measure(t, "checkout", func() (processor.Session, error) { return t.next.Checkout(ctx, order) })
}

func (t instrumented) Portal(ctx context.Context, customer, returnURL string) (string, error) {
	return measure(t, "portal", func() (string, error) { return t.next.Portal(ctx, customer, returnURL) })
}

func (t instrumented) Subscription(ctx context.Context, id string) (subscription.State, error) {
	return measure(t, "subscription", func() (subscription.State, error) { return t.next.Subscription(ctx, id) })
}

func (t instrumented) Subscriptions(ctx context.Context, customer string) ([]string, error) {
	return measure(t, "subscriptions", func() ([]string, error) { return t.next.Subscriptions(ctx, customer) })
}

func (t instrumented) AccountSubscriptions(ctx context.Context) ([]string, error) {
	return measure(t, "account_subscriptions", func() ([]string, error) { return t.next.AccountSubscriptions(ctx) })
}

func (t instrumented) ExpireCheckouts(ctx context.Context) error {
	_, err := measure(t, "expire_checkouts", func() (struct{}, error) { return struct{}{}, t.next.ExpireCheckouts(ctx) })
	return err
}

func (t instrumented) Charge(ctx context.Context, invoice string) error {
	_, err := measure(t, "charge", func() (struct{}, error) { return struct{}{}, t.next.Charge(ctx, invoice) })
	return err
}

func (t instrumented) SetCancelAtPeriodEnd(ctx context.Context, id string, cancel bool) error {
	_, err := measure(t, "set_cancel", func() (struct{}, error) { return struct{}{}, t.next.SetCancelAtPeriodEnd(ctx, id, cancel) })
	return err
}

func (t instrumented) CheckOffer(ctx context.Context) error {
	_, err := measure(t, "offer", func() (struct{}, error) { return struct{}{}, t.next.CheckOffer(ctx) })
	return err
}
