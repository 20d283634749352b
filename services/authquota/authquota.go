// Package authquota is the service that keeps accounts, their keys and what they have used, and tells the gateways who a key
// belongs to.
//
// A gateway asks for a key by its keyed hash and keeps the answer, a principal. Counting the calls is the gateways' work, in
// Redis; authquota copies the counters to its ledger every second and raises the account's epoch in Redis whenever an operator
// changes something that decides what its calls may do.
//
// What fails when something is away:
//   - the database: keys cannot be resolved and nothing can be changed (503); gateways go on with the principals that they keep;
//   - Redis: keys cannot be resolved (503). A revocation, suspension, resumption or grant is recorded and answered with 503,
//     and takes force as soon as Redis is back; so does the move of today's calls when a key is connected;
//   - Redis for good, with all that it held: the epochs heal by themselves, the counters come back from the ledger;
//   - billing: nothing can be bought or cancelled, and accounts that are closed are cancelled when it is back. What was paid for is in
//     force all the same, and ends on its second;
//   - the mail server: mails wait in the database and are tried again for three days.
//
// Known hole: a loss of Redis forgets the calls of at most the last second before it, those since the last copy. They can then be
// made once more.
package authquota

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"opportunity.internal/pkg/command"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/billing"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/ledger"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/migrations"
)

var service = command.Service[Config]{
	Name: "authquota", Migrations: migrations.Files, Serve: Run,
	Common: func(c Config) command.Common { return command.Common{Telemetry: c.Telemetry, Database: c.Database} },
	Check:  redisAnswers,
}

// Main runs one verb with settings from the environment. serve answers until ctx ends; migrate brings the schema up to date;
// check tells whether the settings are right, the schema is there and Redis answers.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return service.Main(ctx, lookup, args)
}

// Migrate brings the schema of cfg.Database to what this binary was built for.
func Migrate(ctx context.Context, cfg Config) error { return service.Migrate(ctx, cfg) }

// Run serves until ctx ends, drains, and copies the counters a last time. It never migrates: it waits for its schema.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	public, operations, err := cfg.Server.Open(ctx)
	if err != nil {
		return err
	}
	serving := false
	defer func() {
		if !serving { // otherwise the group closes them
			err = errors.Join(err, public.Close(), operations.Close())
		}
	}()
	told, err := cfg.parse()
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, "authquota", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	db, err := database.Open(cfg.Database, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	redis, err := redisdb.Open(cfg.Redis, tel)
	if err != nil {
		return err
	}
	defer redis.Close()
	p, err := newParts(cfg, told, db, redis, tel)
	if err != nil {
		return err
	}
	refusals := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	site := pages.Site{
		Errors: refusals, Counters: ledger.Counters{Redis: redis}, Tiers: told.tiers, Peppers: told.peppers, InForce: p.inForce,
	}
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	if cfg.BillingURL != "" {
		seller := billing.New(cfg.BillingURL, cfg.Tokens, tel.Transport(transport, "billing"))
		site.Billing, p.seller = seller, seller
	}
	shown, err := newSite(cfg, p.kept, site)
	if err != nil {
		return err
	}
	ready := new(server.Ready)
	// Not Redis: without it a revocation can still be recorded, if only requests get here.
	ready.Add("schema", func(ctx context.Context) error { return db.Current(ctx, migrations.Files) })
	api := httpapi.API{
		Errors: refusals, Tokens: cfg.Tokens,
		Keys: p.kept, Requests: p.kept, Principals: p.kept, Accounts: p.kept, Paid: p.kept, Audit: p.kept, Usage: p.kept, Tallies: p.kept,
		Epochs: p.epochs, Tiers: told.tiers, Peppers: told.peppers, OlderKeys: told.older, Now: cfg.Now, Ready: ready,
	}
	serving = true
	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", public, tel.Handler(split(shown.Handler(), api.Handler())))
	p.start(group, db)
	err = group.Wait()
	p.copyLast(ctx)
	return err
}

// turnTime bounds one turn of a loop: a database that has vanished without a word must not hold up the turns after it.
const turnTime = 10 * time.Second

// every calls do at once and then each interval until ctx ends. A failure is logged when it begins and when it ends, because what
// fails here fails at every turn.
func every(ctx context.Context, interval time.Duration, log *slog.Logger, name string, do func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for failing := false; ; {
		turn, cancel := context.WithTimeout(ctx, turnTime)
		err := do(turn)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			log.ErrorContext(ctx, "loop fails", "loop", name, "error", err.Error())
		case err == nil && failing:
			log.InfoContext(ctx, "loop works again", "loop", name)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func redisAnswers(ctx context.Context, cfg Config) error {
	tel, err := telemetry.Start(ctx, "authquota", cfg.Telemetry)
	if err != nil {
		return err
	}
	redis, err := redisdb.Open(cfg.Redis, tel)
	if err != nil {
		return err
	}
	defer redis.Close()
	return redis.Ping(ctx).Err()
}
