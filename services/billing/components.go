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
	"opportunity.internal/services/billing/internal/entitle"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/migrations"
)

// parts are what the service is made of.
type parts struct {
	cfg     Config
	tel     *telemetry.Telemetry
	metrics *metrics
	db      *database.DB
	kept    *store.Store
	money   processor.Processor
	sandbox *sandbox.Sandbox // nil where it is not the processor
	intake  intake.Intake
	sales   sales.Sales
	webhook *httpapi.Webhook // nil: announcements come in no other way than through the processor itself
	pusher  *entitle.Pusher
	close   func()

	checked atomic.Bool // the processor sells what the plan table says
}

// newParts makes what serving and comparing need alike.
func newParts(cfg Config, db *database.DB, tel *telemetry.Telemetry, m *metrics) *parts {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p := &parts{cfg: cfg, tel: tel, metrics: m, db: db, kept: store.New(db, cfg.Now), close: func() {}}
	p.intake = intake.Intake{Store: p.kept, Log: tel.Log}
	switch cfg.Processor {
	case Sandbox:
		p.sandbox = sandbox.New(db, cfg.PublicURL, cfg.Now)
		p.money = timed{p.sandbox, m}
	default:
		s := stripe.New(cfg.Stripe)
		p.money, p.close = timed{s, m}, s.Close
		p.webhook = &httpapi.Webhook{Log: tel.Log, Count: m.webhook, Event: func(ctx context.Context, body []byte, signature string) (processor.Event, error) {
			return s.Event(ctx, body, signature, cfg.Now())
		}}
	}
	p.intake.Source = p.money
	return p
}

// serve adds what only a process that serves has.
func (p *parts) serve(authquota *peer.Client) {
	p.pusher = entitle.New(entitle.Pusher{
		Outbox: p.kept, Authquota: authquota, Now: p.cfg.Now, Log: p.tel.Log, Count: p.metrics.push, Gauge: p.metrics.owed,
	})
	p.intake.Changed = p.pusher.Wake
	p.sales = sales.Sales{Store: p.kept, Processor: p.money, Intake: p.intake}
	if p.webhook != nil {
		p.webhook.Intake = p.intake
	}
}

// start begins all loops as soon as the schema is there.
func (p *parts) start(group *server.Group) {
	group.Go("offer", p.checkOffer)
	group.Go("schema", func(ctx context.Context) error {
		if err := p.db.Await(ctx, p.tel, migrations.Files); err != nil {
			return err
		}
		group.Go("entitlements", p.pusher.Run)
		if p.sandbox != nil {
			group.Go("sandbox", func(ctx context.Context) error {
				return p.sandbox.Run(ctx, p.tel.Log, func(ctx context.Context, e processor.Event) error {
					_, err := p.intake.Announced(ctx, e)
					return err
				})
			})
		}
		group.Go("forgetting", func(ctx context.Context) error { return p.every(ctx, time.Hour, "forgetting", p.kept.Forget) })
		return nil
	})
}

const (
	offerTime  = 10 * time.Second
	offerPause = 2 * time.Second
)

// checkOffer holds the processor's price against the plan table. A processor that is away is asked again: nothing is known to be wrong.
func (p *parts) checkOffer(ctx context.Context) error {
	for told := false; ; told = true {
		asked, cancel := context.WithTimeout(ctx, offerTime)
		err := p.money.CheckOffer(asked)
		cancel()
		if err == nil {
			p.checked.Store(true)
			return nil
		}
		if away := new(problem.Error); !errors.As(err, &away) {
			return err
		}
		if !told {
			p.tel.Log.WarnContext(ctx, "waiting for the payment processor", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(offerPause):
		}
	}
}

var errNotChecked = errors.New("the payment processor has not answered yet")

func (p *parts) offered(context.Context) error {
	if !p.checked.Load() {
		return errNotChecked
	}
	return nil
}

func (p *parts) reconcile(ctx context.Context, actor string) (api.BillingReport, error) {
	report, err := reconcile.Reconciler{
		Store: p.kept, Source: p.money, Intake: p.intake, Now: p.cfg.Now, Log: p.tel.Log,
	}.Run(ctx, actor)
	p.metrics.reconciled(report, err)
	if err != nil {
		p.tel.Log.ErrorContext(ctx, "reconcile", "did", report.Summary(), "error", err.Error())
		return report, err
	}
	p.tel.Log.InfoContext(ctx, "reconcile", "did", report.Summary())
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
	p := newParts(cfg, db, tel, newMetrics(tel.Registry))
	defer p.close()
	return errors.Join(p.money.CheckOffer(ctx), peer.Answers(ctx, cfg.AuthquotaURL))
}
