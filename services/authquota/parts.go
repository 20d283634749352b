package authquota

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/closing"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/epoch"
	"opportunity.internal/services/authquota/internal/ledger"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/merge"
	peoplestore "opportunity.internal/services/authquota/internal/people/store"
	"opportunity.internal/services/authquota/internal/secretbox"
	"opportunity.internal/services/authquota/internal/tier"
	"opportunity.internal/services/authquota/migrations"
)

// settings are the parsed settings.
type settings struct {
	peppers [][]byte
	older   apikey.OlderForm
	box     secretbox.Box
	tiers   tier.Table
}

func (c Config) parse() (s settings, err error) {
	if s.peppers, err = apikey.Peppers(c.Peppers); err != nil {
		return s, err
	}
	if s.older, err = apikey.ParseOlderForm(c.OlderKeys); err != nil {
		return s, err
	}
	if s.box, err = secretbox.Parse(c.Encryption); err != nil {
		return s, err
	}
	s.tiers, err = tier.Parse(c.Tiers)
	return s, err
}

// parts do the background work.
type parts struct {
	tel    *telemetry.Telemetry
	db     *dbtx.DB
	stores stores
	epochs *epoch.Epochs
	merges *merge.Merges
	ledger *ledger.Ledger
	mails  *courier.Courier
	seller closing.Billing // nil if no plans are sold

	pendingRaises, pendingCancels prometheus.Gauge
}

func newParts(cfg Config, s settings, db *database.DB, client *redis.Client, tel *telemetry.Telemetry) (*parts, error) {
	p := &parts{tel: tel, db: &dbtx.DB{DB: db, Now: cfg.Now, Box: s.box, Mails: mail.NewWriter(cfg.PublicURL).From(cfg.Contact)}}
	p.stores = newStores(p.db)
	p.epochs, p.merges = epoch.New(client, p.db), merge.New(client, p.stores.usage, cfg.Now)
	p.ledger = ledger.New(client, p.stores.usage, cfg.Now)
	p.pendingRaises = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "authquota_epoch_raises_pending", Help: "Account changes that are saved but not in effect yet, because Redis is unavailable.",
	})
	p.pendingCancels = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "authquota_cancels_pending", Help: "Closed accounts whose subscriptions billing has not cancelled yet; they may still be charged.",
	})
	tel.Registry.MustRegister(p.pendingRaises, p.pendingCancels, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authquota_ledger_lag_seconds", Help: "Age of the ledger's copy of the counters.",
	}, func() float64 { return p.ledger.Lag().Seconds() }))
	var err error
	p.mails, err = courier.New(cfg.Mail, p.db, cfg.Now, tel.Log, tel.Registry)
	return p, err
}

// apply makes committed changes of an account take effect immediately.
func (p *parts) apply(ctx context.Context, accountID string) error {
	_, err := p.epochs.Deliver(ctx, accountID)
	return errors.Join(err, p.merges.Deliver(ctx, accountID))
}

// start starts all background loops once the schema is current.
func (p *parts) start(group *server.Group, db *database.DB) {
	group.Go("schema", func(ctx context.Context) error {
		if err := db.Await(ctx, p.tel, migrations.Files); err != nil {
			return err
		}
		loop := func(name string, interval time.Duration, do func(context.Context) error) {
			group.Go(name, func(ctx context.Context) error { return every(ctx, interval, p.tel.Log, name, do) })
		}
		loop("forgetting", time.Hour, p.deleteExpired)
		loop("merges", merge.Interval, func(ctx context.Context) error { return p.merges.Deliver(ctx, "") })
		loop("sealing", time.Hour, p.reseal)
		loop("ledger", ledger.Interval, p.ledger.Copy)
		loop("notices", time.Minute, p.stores.keys.Remind)
		loop("plans", time.Minute, p.stores.plan.EndPlans)
		loop("closing", closing.Interval, p.cancelClosed)
		// Not bounded by iterationTimeout: an SMTP server may take longer.
		loop("mails", courier.Interval, func(context.Context) error { return p.mails.Deliver(ctx) })
		loop("epochs", epoch.Interval, p.deliverEpochs)
		return nil
	})
}

func (p *parts) deleteExpired(ctx context.Context) error {
	return errors.Join(p.stores.usage.DeleteExpired(ctx), p.stores.signIns.DeleteExpired(ctx))
}

func (p *parts) reseal(ctx context.Context) error {
	return p.db.Reseal(ctx, append(peoplestore.Sealed(), dbtx.SealedMails)...)
}

func (p *parts) deliverEpochs(ctx context.Context) error {
	n, err := p.epochs.Deliver(ctx, "")
	if err == nil || n > 0 { // without the database the number is unknown
		p.pendingRaises.Set(float64(n))
	}
	return err
}

func (p *parts) cancelClosed(ctx context.Context) error {
	n, err := closing.Deliver(ctx, p.stores.plan, p.seller)
	if err == nil || n > 0 {
		p.pendingCancels.Set(float64(n))
	}
	return err
}

// copyLast copies the counters after the drain, so that the last requests are included.
func (p *parts) copyLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.ledger.Copy(ctx); err != nil {
		p.tel.Log.ErrorContext(ctx, "final counter copy failed", "error", err.Error())
	}
}
