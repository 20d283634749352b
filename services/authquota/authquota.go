// Package authquota implements the service that stores accounts, API keys and usage, and resolves
// keys for the gateways.
//
// A gateway looks up a key by its keyed hash and caches the resulting principal. The gateways count
// requests in Redis. authquota copies the changed counters to its ledger every second. It raises
// the account's epoch with every change of the account, and publishes it in Redis.
//
// Behavior during outages:
//
//   - Database: keys cannot be resolved and nothing can be changed (503). Gateways continue with
//     their cached principals. If it accepts connections but does not respond, only the first
//     request of a person or an operator waits for it, for at most 0.9 seconds.
//   - Redis: keys cannot be resolved (503). A change of an account, sign-ins included, is saved;
//     the response is 503, and it takes effect when Redis is back. The same holds for moving
//     today's requests when a key is connected.
//   - Redis data loss: epochs recover automatically, and counters are restored from the ledger.
//   - Billing: nothing can be bought or cancelled. Plans of closed accounts are cancelled when
//     billing is back. Paid periods stay in effect and end on time.
//   - Mail server: mails wait in the database and are retried for three days.
//
// Known limitation: a loss of Redis data also loses the requests counted since the last copy, at
// most one second. That quota can be used again.
package authquota

import (
	"context"
	"errors"
	"fmt"
	"io"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/epochs"
	"opportunity.internal/services/authquota/internal/people"
)

var definition = service.Definition[Config]{
	Name: "authquota", Migrations: accountdb.Migrations, Start: start, Check: check,
	Base: func(c Config) service.Base {
		return service.Base{
			Server: c.Server, Telemetry: c.Telemetry, Database: c.Database, TLS: c.TLS, Peers: c.Peers, Now: c.Now,
		}
	},
}

// Main runs one verb with settings from the environment: serve runs until ctx ends, migrate
// migrates the schema, check verifies the settings, the schema, the encryption keys and the
// connections to Redis, billing and the mail server, and recover decides what becomes of a database
// that was set back; see Recover.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return definition.Main(ctx, lookup, args, map[string]service.Verb[Config]{
		"recover": service.RecoverVerb("authquota", RecoverConfig, Recover),
	})
}

// Migrate brings the schema of cfg.Database to the version this binary needs.
func Migrate(ctx context.Context, cfg Config) error { return definition.Migrate(ctx, cfg) }

// Run serves until ctx ends, drains, and copies the counters one last time. It never migrates; it
// waits for the schema.
func Run(ctx context.Context, cfg Config) error { return definition.Run(ctx, cfg) }

func start(r *service.Runtime, cfg Config) error {
	cfg.Now = r.Now
	settings, err := cfg.parse()
	if err != nil {
		return err
	}
	redis, err := r.Redis(cfg.Redis)
	if err != nil {
		return err
	}
	p, err := newParts(cfg, settings, r, redis)
	if err != nil {
		return err
	}
	errorWriter := problem.Writer{BaseURL: cfg.PublicURL, Log: r.Log}
	if cfg.BillingURL != "" {
		p.seller = r.Peer(peer.Billing, cfg.BillingURL, cfg.Tokens)
		r.WatchPeer(peer.Billing, cfg.BillingURL, cfg.Tokens)
	}
	account, err := newPages(cfg, settings, p, errorWriter)
	if err != nil {
		return err
	}
	r.Registry.MustRegister(account.Collectors()...)
	// Redis is not a readiness check: without it, revocations must still reach this process to be
	// saved.
	r.Ready.Add("schema", r.SchemaReady)
	r.Ready.Report(p.mails.Fault)
	r.Ready.Report(func() string { return *p.sealed.Load() })
	api := p.operators(p.guard.Handler(newAPI(cfg, settings, p, errorWriter, &r.Ready), errorWriter), errorWriter)
	access := peer.NewAccess(peer.Authquota, cfg.Callers, errorWriter)
	r.Handle(server.ServicePort, r.InternalHandler(access.Handler(split(account, api))))
	if !cfg.NoLoops {
		p.addLoops(r)
	}
	r.Cleanup(p.copyLast) // after the drain, to include the last requests
	return nil
}

func check(ctx context.Context, r *service.Runtime, cfg Config) error {
	redis, err1 := r.Redis(cfg.Redis)
	settings, err2 := cfg.parse()
	mails, err3 := courier.New(cfg.Mail, nil, r.Log, r.Registry)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	errs := []error{cfg.Redis.Check(ctx, redis)}
	if r.SchemaCurrent(ctx) == nil {
		errs = append(errs, checkSealed(ctx, r.DB, settings.box))
	}
	if cfg.BillingURL != "" {
		errs = append(errs, r.CheckPeer(ctx, peer.Billing, cfg.BillingURL, cfg.Tokens))
	}
	return errors.Join(append(errs, mails.Check(ctx))...)
}

func sealedColumns() []accountdb.Sealed { return append(people.SealedColumns(), accountdb.SealedMails) }

// checkSealed returns an error if the database has texts that do not open with the keys of box.
func checkSealed(ctx context.Context, db *database.DB, box accountdb.Box) error {
	prefixes, lost := box.Prefixes(), int64(0)
	for _, at := range sealedColumns() {
		var n int64
		err := db.WithContext(ctx).Table(at.Table).
			Where(at.Column+" <> '' AND substr("+at.Column+", 1, ?) NOT IN ?", len(prefixes[0]), prefixes).Count(&n).Error
		if err != nil {
			return err
		}
		lost += n
	}
	if lost > 0 {
		return fmt.Errorf(
			"OPPORTUNITY_ENCRYPTION_KEYS lacks the key of %d authenticator seeds and queued mails in the database: put it at "+
				"the end of the list", lost)
	}
	return nil
}

// RecoverConfig loads the settings for Recover.
func RecoverConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[struct {
		Telemetry telemetry.Config
		Database  database.Config
		Redis     redisdb.Config
	}](lookup)
	return Config{Telemetry: s.Telemetry, Database: s.Database, Redis: s.Redis},
		errors.Join(err, s.Database.Validate(), s.Redis.Validate())
}

// Recover ends the state of a database that was set back. Accepting the loss revokes what belongs
// to the accounts that may have lost a change. A service that runs on the database then becomes
// ready.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		client, err := r.Redis(cfg.Redis)
		if err != nil {
			return err
		}
		lost, err := epochs.ReadLost(ctx, client, setback.Store{DB: r.DB, Changes: "changes"})
		if err != nil {
			return fmt.Errorf("reading from Redis which changes were lost: %w", err)
		}
		if decision.Current {
			return r.Recover(ctx, decision, out, epochs.Current(r.Now(), decision.Operator), lost.Marks...)
		}
		if err = r.Recover(ctx, decision, out, lost.Accept(r.Now(), decision.Operator), lost.Marks...); err == nil {
			_, err = fmt.Fprintf(out,
				"%d accounts may have lost changes: their keys are revoked, and their people sign in by resetting the password\n",
				lost.Accounts)
		}
		return err
	})
}
