package billing

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/push"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
)

// components are the parts of the service, wired together.
type components struct {
	*service.Runtime

	metrics   *metrics
	store     *store.Store
	processor processor.Processor
	sandbox   *sandbox.Sandbox // nil if it is not the processor
	intake    intake.Intake
	sales     sales.Sales
	webhook   *httpapi.Webhook // nil with the sandbox, which delivers its events directly
	pusher    *push.Pusher
	witness   *witness

	offerChecked atomic.Bool // whether the processor's price matches the plan table
}

// newComponents creates the components that both serving and reconciling need.
func newComponents(r *service.Runtime, cfg Config) *components {
	c := &components{Runtime: r, metrics: newMetrics(r.Registry), store: store.New(r.DB, r.Now)}
	c.intake = intake.Intake{Store: c.store, Log: r.Log}
	switch cfg.Processor {
	case Sandbox:
		c.sandbox = sandbox.New(r.DB, cfg.PublicURL, r.Now)
		c.processor = instrumented{c.sandbox, c.metrics}
	default:
		s := stripe.New(cfg.Stripe)
		r.Cleanup(func(context.Context) { s.Close() })
		c.processor = instrumented{s, c.metrics}
		c.webhook = &httpapi.Webhook{Log: r.Log, Count: c.metrics.webhook, Parse: func(ctx context.Context, body []byte, signature string) (processor.Event, error) {
			return s.Event(ctx, body, signature, r.Now())
		}}
	}
	c.intake.Source = c.processor
	return c
}

// serve adds the components that only serving needs.
func (c *components) serve(authquota *peer.Client) {
	c.witness = newWitness(c.Runtime, c.store, authquota)
	c.pusher = push.New(push.Pusher{
		Outbox: heldOutbox{c.store, c.witness}, Authquota: reported{c.witness}, Now: c.Now, Log: c.Log, Count: c.metrics.push, SetPending: c.metrics.setPending,
	})
	c.intake.OnChange = c.pusher.Wake
	c.sales = sales.Sales{Store: c.store, Processor: c.processor, Intake: c.intake}
	if c.webhook != nil {
		c.webhook.Intake = c.intake
	}
}

// runSandbox renews and ends the subscriptions that are due, and delivers the events of the sandbox.
func (c *components) runSandbox(ctx context.Context) error {
	return c.sandbox.Process(ctx, func(ctx context.Context, e processor.Event) error {
		_, err := c.intake.HandleEvent(ctx, e)
		return err
	})
}

const (
	offerTimeout = 10 * time.Second
	offerRetry   = 2 * time.Second
)

// checkOffer checks the processor's price against the plan table and returns an error if they differ. It retries while the processor is
// unavailable.
func (c *components) checkOffer(ctx context.Context) error {
	for logged := false; ; logged = true {
		callCtx, cancel := context.WithTimeout(ctx, offerTimeout)
		err := c.processor.CheckOffer(callCtx)
		cancel()
		if err == nil {
			c.offerChecked.Store(true)
			return nil
		}
		if unavailable := new(problem.Error); !errors.As(err, &unavailable) {
			return err
		}
		if !logged {
			c.Log.WarnContext(ctx, "payment processor unavailable, will retry", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(offerRetry):
		}
	}
}

var errOfferNotChecked = errors.New("payment processor not reached yet")

func (c *components) offerReady(context.Context) error {
	if !c.offerChecked.Load() {
		return errOfferNotChecked
	}
	return nil
}

func (c *components) reconcile(ctx context.Context, actor string) (api.BillingReport, error) {
	report, err := reconcile.Reconciler{
		Store: c.store, Source: c.processor, Intake: c.intake, Now: c.Now, Log: c.Log,
	}.Run(ctx, actor)
	c.metrics.reconciled(report, err)
	if err != nil {
		c.Log.ErrorContext(ctx, "reconciliation failed", "summary", report.Summary(), "error", err.Error())
		return report, err
	}
	c.Log.InfoContext(ctx, "reconciliation finished", "summary", report.Summary())
	return report, nil
}
