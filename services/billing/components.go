package billing

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/push"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/migrations"
)

// components are the parts of the service, wired together.
type components struct {
	cfg       Config
	tel       *telemetry.Telemetry
	metrics   *metrics
	db        *database.DB
	store     *store.Store
	processor processor.Processor
	sandbox   *sandbox.Sandbox // nil if it is not the processor
	intake    intake.Intake
	sales     sales.Sales
	webhook   *httpapi.Webhook // nil with the sandbox, which delivers its events directly
	pusher    *push.Pusher
	close     func()

	offerChecked atomic.Bool // whether the processor's price matches the plan table
}

// newComponents creates the components that both serving and reconciling need.
func newComponents(cfg Config, db *database.DB, tel *telemetry.Telemetry, m *metrics) *components {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &components{cfg: cfg, tel: tel, metrics: m, db: db, store: store.New(db, cfg.Now), close: func() {}}
	c.intake = intake.Intake{Store: c.store, Log: tel.Log}
	switch cfg.Processor {
	case Sandbox:
		c.sandbox = sandbox.New(db, cfg.PublicURL, cfg.Now)
		c.processor = instrumented{c.sandbox, m}
	default:
		s := stripe.New(cfg.Stripe)
		c.processor, c.close = instrumented{s, m}, s.Close
		c.webhook = &httpapi.Webhook{Log: tel.Log, Count: m.webhook, Parse: func(ctx context.Context, body []byte, signature string) (processor.Event, error) {
			return s.Event(ctx, body, signature, cfg.Now())
		}}
	}
	c.intake.Source = c.processor
	return c
}

// serve adds the components that only serving needs.
func (c *components) serve(authquota *peer.Client) {
	c.pusher = push.New(push.Pusher{
		Outbox: c.store, Authquota: authquota, Now: c.cfg.Now, Log: c.tel.Log, Count: c.metrics.push, SetPending: c.metrics.setPending,
	})
	c.intake.OnChange = c.pusher.Wake
	c.sales = sales.Sales{Store: c.store, Processor: c.processor, Intake: c.intake}
	if c.webhook != nil {
		c.webhook.Intake = c.intake
	}
}

// start starts the background workers. Those that use the database wait for the schema.
func (c *components) start(group *server.Group) {
	group.Go("offer", c.checkOffer)
	group.Go("schema", func(ctx context.Context) error {
		if err := c.db.Await(ctx, c.tel, migrations.Files); err != nil {
			return err
		}
		group.Go("entitlements", c.pusher.Run)
		if c.sandbox != nil {
			group.Go("sandbox", func(ctx context.Context) error {
				return c.sandbox.Run(ctx, c.tel.Log, func(ctx context.Context, e processor.Event) error {
					_, err := c.intake.HandleEvent(ctx, e)
					return err
				})
			})
		}
		group.Go("event cleanup", func(ctx context.Context) error {
			return c.runEvery(ctx, time.Hour, "event cleanup", c.store.DeleteOldEvents)
		})
		return nil
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
			c.tel.Log.WarnContext(ctx, "payment processor unavailable, will retry", "error", err.Error())
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
		Store: c.store, Source: c.processor, Intake: c.intake, Now: c.cfg.Now, Log: c.tel.Log,
	}.Run(ctx, actor)
	c.metrics.reconciled(report, err)
	if err != nil {
		c.tel.Log.ErrorContext(ctx, "reconciliation failed", "summary", report.Summary(), "error", err.Error())
		return report, err
	}
	c.tel.Log.InfoContext(ctx, "reconciliation finished", "summary", report.Summary())
	return report, nil
}

func check(ctx context.Context, cfg Config) error {
	tel, err := telemetry.Start(ctx, "billing", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	db, err := database.Open(cfg.Database, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	c := newComponents(cfg, db, tel, newMetrics(tel.Registry))
	defer c.close()
	return errors.Join(c.processor.CheckOffer(ctx), peer.CheckReady(ctx, cfg.AuthquotaURL))
}
