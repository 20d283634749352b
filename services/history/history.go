// Package history implements the history service. It stores append-only verification events and derives the summaries of listings.
package history

import (
	"context"
	"os"
	"time"

	"opportunity.internal/pkg/command"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/progress"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/httpapi"
	"opportunity.internal/services/history/internal/notary"
	"opportunity.internal/services/history/internal/store"
	"opportunity.internal/services/history/migrations"
)

var service = command.Service[Config]{
	Name: "history", Migrations: migrations.Files, Serve: Run,
	Common: func(c Config) command.Common { return command.Common{Telemetry: c.Telemetry, Database: c.Database} },
	Check:  func(ctx context.Context, c Config) error { return peer.CheckReady(ctx, c.CatalogURL) },
	Verbs: map[string]command.Verb[Config]{
		"check-links": {Load: loadForLinks, Run: func(ctx context.Context, c Config, _ []string) error {
			return checkLinks(ctx, c, os.Stdout)
		}},
		"checkpoint": {Load: ProofConfig, Run: func(ctx context.Context, c Config, _ []string) error {
			return SignNow(ctx, c, os.Stdout)
		}},
		"verify": {Load: ProofConfig, Usage: "[--against FILE]... [--output text|json]",
			Run: func(ctx context.Context, c Config, args []string) error {
				bar := progress.New(os.Stderr, "verifying events")
				defer bar.Done()
				c.Progress = bar.Set
				return Verify(ctx, c, args, os.Stdout)
			}},
	},
}

// Main runs one verb with settings from the environment:
//
//   - serve serves requests until ctx ends.
//   - migrate brings the schema up to date.
//   - check checks the settings, the schema and the connection to the catalog.
//   - check-links checks the due application links.
//   - checkpoint signs a checkpoint now.
//   - verify verifies all events against the signed checkpoints. It returns ErrMismatch if they do not match.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return service.Main(ctx, lookup, args)
}

// Migrate migrates the database to the schema of this binary.
func Migrate(ctx context.Context, cfg Config) error { return service.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It does not migrate the database; it waits for the schema.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	tel, err := telemetry.Start(ctx, "history", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	db, err := database.Open(cfg.Database, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	public, operations, err := cfg.Server.Open(ctx)
	if err != nil {
		return err
	}

	ready := new(server.Ready)
	ready.Add("schema", func(ctx context.Context) error { return db.Current(ctx, migrations.Files) })
	events := store.New(db)
	tel.Registry.MustRegister(appended(events), storedMetrics{events})
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	copied := listings(peer.New(cfg.CatalogURL, cfg.Tokens, tel.Transport(transport, "catalog")), events, tel.Registry)
	keys, err := cfg.Proof.Keys()
	if err != nil {
		return err
	}
	problems := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	engine := web.New(problems)
	httpapi.API{Store: events, Proofs: events, Keys: keys, Catalog: copied, PublicURL: cfg.PublicURL, Now: cfg.Now}.Routes(engine, problems, cfg.Tokens, ready)

	daily := notary.Notary{Store: events, Keys: keys, Now: cfg.Now, Log: tel.Log, Failed: checkpointFailures(tel.Registry).Inc}

	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", public, tel.Handler(engine))
	group.Go("listings feed", func(ctx context.Context) error {
		if err := db.Await(ctx, tel, migrations.Files); err != nil {
			return err
		}
		return copied.Follow(ctx, tel.Log, tel.Registry)
	})
	group.Go("checkpoints", func(ctx context.Context) error {
		if err := db.Await(ctx, tel, migrations.Files); err != nil {
			return err
		}
		return daily.Run(ctx)
	})
	return group.Wait()
}
