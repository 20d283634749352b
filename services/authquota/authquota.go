// Package authquota implements the service that stores accounts, API keys and usage, and resolves keys for the gateways.
//
// A gateway looks up a key by its keyed hash and caches the resulting principal. The gateways count requests in Redis.
// authquota copies these counters to its ledger every second. It increments the account's epoch in Redis whenever a change
// affects what the account may do.
//
// Behavior during outages:
//
//   - Database: keys cannot be resolved and nothing can be changed (503). Gateways continue with their cached principals.
//   - Redis: keys cannot be resolved (503). A revocation, suspension, resumption or grant is saved but answered with 503, and
//     takes effect when Redis is back. The same holds for moving today's requests when a key is connected.
//   - Redis data loss: epochs recover automatically, and counters are restored from the ledger.
//   - Billing: nothing can be bought or cancelled. Plans of closed accounts are cancelled when billing is back. Paid periods
//     stay in effect and end on time.
//   - Mail server: mails wait in the database and are retried for three days.
//
// Known limitation: a loss of Redis data also loses the requests counted since the last copy, at most one second. That quota
// can be used again.
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
	"opportunity.internal/services/authquota/internal/ledger"
	planpages "opportunity.internal/services/authquota/internal/plan/pages"
	"opportunity.internal/services/authquota/migrations"
)

var service = command.Service[Config]{
	Name: "authquota", Migrations: migrations.Files, Serve: Run,
	Common: func(c Config) command.Common { return command.Common{Telemetry: c.Telemetry, Database: c.Database} },
	Check:  checkRedis,
}

// Main runs one verb with settings from the environment: serve runs until ctx ends, migrate migrates the schema, and check
// verifies the settings, the schema and the connection to Redis.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return service.Main(ctx, lookup, args)
}

// Migrate brings the schema of cfg.Database to the version this binary needs.
func Migrate(ctx context.Context, cfg Config) error { return service.Migrate(ctx, cfg) }

// Run serves until ctx ends, drains, and copies the counters one last time. It never migrates; it waits for the schema.
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
	settings, err := cfg.parse()
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, "authquota", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // unsent spans are lost
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
	p, err := newParts(cfg, settings, db, redis, tel)
	if err != nil {
		return err
	}
	refusals := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	var plans planpages.Billing
	if cfg.BillingURL != "" {
		seller := billing.New(cfg.BillingURL, cfg.Tokens, tel.Transport(transport, "billing"))
		plans, p.seller = seller, seller
	}
	site, err := newSite(cfg, settings, p, refusals, ledger.Counters{Redis: redis}, plans)
	if err != nil {
		return err
	}
	ready := new(server.Ready)
	// Redis is not a readiness check: without it, revocations must still reach this process to be saved.
	ready.Add("schema", func(ctx context.Context) error { return db.Current(ctx, migrations.Files) })
	serving = true
	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", public, tel.Handler(split(site.Handler(), newAPI(cfg, settings, p, refusals, ready))))
	p.start(group, db)
	err = group.Wait()
	p.copyLast(ctx)
	return err
}

// iterationTimeout bounds one run of a background loop, so that an unresponsive database does not block later runs.
const iterationTimeout = 10 * time.Second

// every runs do immediately and then at each interval until ctx ends. It logs only the first failure of a series and the
// recovery, because a failing loop usually fails on every run.
func every(ctx context.Context, interval time.Duration, log *slog.Logger, name string, do func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for failing := false; ; {
		iteration, cancel := context.WithTimeout(ctx, iterationTimeout)
		err := do(iteration)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			log.ErrorContext(ctx, "background loop failing", "loop", name, "error", err.Error())
		case err == nil && failing:
			log.InfoContext(ctx, "background loop recovered", "loop", name)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func checkRedis(ctx context.Context, cfg Config) error {
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
