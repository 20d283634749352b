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
	"opportunity.internal/services/authquota/internal/epoch"
	"opportunity.internal/services/authquota/internal/ledger"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/merge"
	"opportunity.internal/services/authquota/internal/secretbox"
	"opportunity.internal/services/authquota/internal/store"
	"opportunity.internal/services/authquota/internal/tier"
	"opportunity.internal/services/authquota/migrations"
)

// secrets are the settings that have a form of their own.
type secrets struct {
	peppers [][]byte
	older   apikey.OlderForm
	box     secretbox.Box
	tiers   tier.Table
}

func (c Config) parse() (s secrets, err error) {
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

// parts do the work that no request waits for.
type parts struct {
	tel    *telemetry.Telemetry
	kept   *store.Store
	epochs *epoch.Epochs
	merges *merge.Merges
	books  *ledger.Ledger
	mails  *courier.Courier
	seller closing.Billing // nil: nothing is sold

	owed, uncancelled prometheus.Gauge
}

func newParts(cfg Config, s secrets, db *database.DB, client *redis.Client, tel *telemetry.Telemetry) (*parts, error) {
	p := &parts{tel: tel, kept: store.New(db, cfg.Now, s.box, mail.NewWriter(cfg.PublicURL).From(cfg.Contact))}
	p.epochs, p.merges, p.books = epoch.New(client, p.kept), merge.New(client, p.kept, cfg.Now), ledger.New(client, p.kept, cfg.Now)
	p.owed = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "authquota_epoch_raises_pending", Help: "Changes that are recorded but not yet in force, because Redis is out of reach.",
	})
	p.uncancelled = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "authquota_cancels_pending", Help: "Closed accounts that billing could not be told of yet: they may still be charged.",
	})
	tel.Registry.MustRegister(p.owed, p.uncancelled, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authquota_ledger_lag_seconds", Help: "Age of the ledger's copy of the counters.",
	}, func() float64 { return p.books.Lag().Seconds() }))
	var err error
	p.mails, err = courier.New(cfg.Mail, p.kept, cfg.Now, tel.Log, tel.Registry)
	return p, err
}

// inForce puts in force at once what was committed for an account.
func (p *parts) inForce(ctx context.Context, accountID string) error {
	_, err := p.epochs.Deliver(ctx, accountID)
	return errors.Join(err, p.merges.Deliver(ctx, accountID))
}

// start begins all loops as soon as the schema is there.
func (p *parts) start(group *server.Group, db *database.DB) {
	group.Go("schema", func(ctx context.Context) error {
		if err := db.Await(ctx, p.tel, migrations.Files); err != nil {
			return err
		}
		loop := func(name string, interval time.Duration, do func(context.Context) error) {
			group.Go(name, func(ctx context.Context) error { return every(ctx, interval, p.tel.Log, name, do) })
		}
		loop("forgetting", time.Hour, p.kept.Forget)
		loop("merges", merge.Interval, func(ctx context.Context) error { return p.merges.Deliver(ctx, "") })
		loop("sealing", time.Hour, p.kept.Reseal)
		loop("ledger", ledger.Interval, p.books.Copy)
		loop("notices", time.Minute, p.kept.Remind)
		loop("plans", time.Minute, p.kept.EndPlans)
		loop("closing", closing.Interval, p.cancelClosed)
		// not bounded by a turn's time: an SMTP server may take longer
		loop("mails", courier.Interval, func(context.Context) error { return p.mails.Deliver(ctx) })
		loop("epochs", epoch.Interval, p.deliverEpochs)
		return nil
	})
}

func (p *parts) deliverEpochs(ctx context.Context) error {
	n, err := p.epochs.Deliver(ctx, "")
	if err == nil || n > 0 { // a database that is away does not know what is owed
		p.owed.Set(float64(n))
	}
	return err
}

func (p *parts) cancelClosed(ctx context.Context) error {
	n, err := closing.Deliver(ctx, p.kept, p.seller)
	if err == nil || n > 0 {
		p.uncancelled.Set(float64(n))
	}
	return err
}

// copyLast copies the counters after the drain: the calls of the last requests are in them by now.
func (p *parts) copyLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.books.Copy(ctx); err != nil {
		p.tel.Log.ErrorContext(ctx, "counters not copied at shutdown", "error", err.Error())
	}
}
