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
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

type components struct {
	*service.Runtime

	metrics    *metrics
	store      *store.Store
	stripe     *stripe.Stripe
	sandbox    *sandbox.Sandbox       // nil unless it is the processor
	processor  subscription.Processor // stripe or sandbox
	reconciler reconcile.Reconciler
	sales      sales.Sales
	webhook    *httpapi.Webhook
	pusher     reconcile.Pusher
	changed    chan struct{} // holds one element while an entitlement may have to be pushed
	guard      *setback.Guard

	offerChecked atomic.Bool // whether Stripe's price matches the plan table
}

func newComponents(r *service.Runtime, cfg Config) *components {
	c := &components{Runtime: r, metrics: newMetrics(r.Registry), store: store.New(r.DB, r.Now),
		changed: make(chan struct{}, 1)}
	c.stripe = stripe.New(cfg.Stripe, stripe.Options{Log: r.Log, Observe: c.metrics.called})
	r.Cleanup(func(context.Context) { c.stripe.Close() })
	switch {
	case cfg.Processor == Sandbox:
		c.sandbox = sandbox.New(r.DB, cfg.PublicURL, r.Now)
		c.processor = c.sandbox
	case cfg.Substitute != nil:
		c.processor = cfg.Substitute
	default:
		c.processor = c.stripe
	}
	c.reconciler = reconcile.Reconciler{Store: c.store, Processor: c.processor, Now: r.Now, Log: r.Log}
	return c
}

func (c *components) serve(cfg Config) {
	authquota := c.Peer(peer.Authquota, cfg.AuthquotaURL, cfg.Tokens)
	c.guard = c.Guard("changes", nil)
	c.pusher = reconcile.Pusher{Store: c.store, Put: authquota.Put, Now: c.Now, Log: c.Log,
		Count: count(c.metrics.pushes), SetPending: c.metrics.pending.Set}
	c.reconciler.OnChange = c.push
	c.sales = sales.Sales{Reconciler: c.reconciler}
	c.webhook = &httpapi.Webhook{Reconciler: c.reconciler, Stripe: c.stripe, Count: count(c.metrics.webhooks)}
	c.pushAgain(authquota)
}

func (c *components) push() {
	select {
	case c.changed <- struct{}{}:
	default: // already pending
	}
}

// runSandbox renews and ends the subscriptions that are due, and delivers the events of the
// sandbox.
func (c *components) runSandbox(ctx context.Context) error {
	return c.sandbox.Process(ctx, func(ctx context.Context, e subscription.Event) error {
		_, err := c.webhook.Receive(ctx, e)
		return err
	})
}

const (
	offerTimeout = 10 * time.Second
	offerRetry   = 2 * time.Second
)

// checkOffer checks Stripe's price against the plan table and returns an error if they differ. It
// retries while Stripe is unavailable. The sandbox sells what the table says.
func (c *components) checkOffer(ctx context.Context) (mismatch error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	service.Loop{Name: "offer", Interval: offerRetry, Timeout: offerTimeout, Do: func(ctx context.Context) error {
		err := c.compareOffer(ctx)
		if unavailable := new(problem.Error); errors.As(err, &unavailable) {
			return err
		}
		mismatch = err
		c.offerChecked.Store(err == nil)
		done()
		return nil
	}}.Run(ctx, c.Log)
	return mismatch
}

func (c *components) compareOffer(ctx context.Context) error {
	if c.processor != subscription.Processor(c.stripe) {
		return nil
	}
	return c.stripe.CheckOffer(ctx)
}

var errOfferNotChecked = errors.New("payment processor not reached yet")

func (c *components) offerReady(context.Context) error {
	if !c.offerChecked.Load() {
		return errOfferNotChecked
	}
	return nil
}

func (c *components) reconcile(ctx context.Context, actor string) (api.BillingReport, error) {
	report, err := c.reconciler.Run(ctx, actor)
	c.metrics.reconciled(report, err)
	if err != nil {
		c.Log.ErrorContext(ctx, "reconciliation failed", "summary", report.Summary(), "error", err.Error())
	} else {
		c.Log.InfoContext(ctx, "reconciliation finished", "summary", report.Summary())
	}
	return report, err
}

const (
	generationInterval = 10 * time.Second
	generationTimeout  = 5 * time.Second
)

// pushAgain pushes every entitlement after authquota's database was set back: it may lack some,
// although it acknowledged them.
func (c *components) pushAgain(authquota *peer.Client) {
	c.Every(service.Loop{Name: "generation of authquota", Interval: generationInterval, Retry: time.Second,
		Timeout: generationTimeout,
		Do: c.guard.UnlessSetBack(func(ctx context.Context) error {
			var newest string
			if err := authquota.Get(ctx, api.MarkPath, &newest); err != nil {
				return service.UnlessReported(err)
			}
			m, ok := setback.Parse(newest)
			if !ok {
				return nil
			}
			again, err := c.store.PushAgain(ctx, m.Generation)
			if again {
				c.push()
			}
			return err
		})})
}
