// Package catalog is the service that stores listings and serves the published ones to consumers.
//
// Curators import, publish and withdraw listings. Verification comes from the history service alone, as summaries that catalog
// copies. Lists and records are served from a snapshot in memory, so they survive a database outage of up to snapshot.MaxAge.
package catalog

import (
	"context"
	"time"

	"opportunity.internal/pkg/command"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/httpapi"
	"opportunity.internal/services/catalog/internal/snapshot"
	"opportunity.internal/services/catalog/internal/store"
	"opportunity.internal/services/catalog/internal/store/desk"
	"opportunity.internal/services/catalog/migrations"
)

var service = command.Service[Config]{
	Name: "catalog", Migrations: migrations.Files, Serve: Run,
	Common: func(c Config) command.Common { return command.Common{Telemetry: c.Telemetry, Database: c.Database} },
	Check:  func(ctx context.Context, c Config) error { return peer.CheckReady(ctx, c.HistoryURL) },
}

// Main runs one verb with settings from the environment. serve runs the service until ctx ends; migrate updates the schema; check
// verifies the settings, the schema and that the history service is reachable.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return service.Main(ctx, lookup, args)
}

// Migrate updates the schema of cfg.Database to the version this binary needs.
func Migrate(ctx context.Context, cfg Config) error { return service.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It does not migrate but waits for the schema. After an outage of the history service it
// catches up automatically.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	tel, err := telemetry.Start(ctx, "catalog", cfg.Telemetry)
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

	listings := store.New(db, cfg.Now)
	live := snapshot.NewLive(listings, cfg.Now, tel.Log)
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	history := peer.New(cfg.HistoryURL, cfg.Tokens, tel.Transport(transport, "history"))
	copied := summaries(history, listings)
	ready := new(server.Ready)
	ready.Add("snapshot", live.Loaded) // includes the schema: loading needs it
	problems := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	engine := web.New(problems)
	httpapi.API{
		Catalog: live, Curation: listings, Listings: listings, Reviews: listings, Desk: desk.New(db, cfg.Now), History: history,
		Now: cfg.Now, PublicURL: cfg.PublicURL,
	}.Routes(engine, problems, cfg.Tokens, ready)
	tel.Registry.MustRegister(append(gauges(live), freshnessCollector{live})...)

	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", public, tel.Handler(engine))
	group.Go("catalog", func(ctx context.Context) error {
		if err := db.Await(ctx, tel, migrations.Files); err != nil {
			return err
		}
		group.Go("listing index", func(ctx context.Context) error { return keepIndex(ctx, listings, tel.Log) })
		group.Go("summaries", func(ctx context.Context) error { return copied.Follow(ctx, tel.Log, tel.Registry) })
		return live.Run(ctx)
	})
	return group.Wait()
}
