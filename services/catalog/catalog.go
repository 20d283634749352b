// Package catalog is the service that keeps the listings and answers the list and the detail operation.
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
	"opportunity.internal/services/catalog/internal/feed"
	"opportunity.internal/services/catalog/internal/httpapi"
	"opportunity.internal/services/catalog/internal/snapshot"
	"opportunity.internal/services/catalog/internal/store"
	"opportunity.internal/services/catalog/migrations"
)

var service = command.Service[Config]{
	Name: "catalog", Migrations: migrations.Files, Serve: Run,
	Common: func(c Config) command.Common { return command.Common{Telemetry: c.Telemetry, Database: c.Database} },
	Check:  func(ctx context.Context, c Config) error { return peer.CheckReady(ctx, c.HistoryURL) },
}

// Main runs one verb with settings from the environment. serve answers until ctx ends; migrate brings the schema up to date;
// check tells whether the settings are right, the schema is there and the history service answers.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return service.Main(ctx, lookup, args)
}

// Migrate brings the schema of cfg.Database to what this binary was built for.
func Migrate(ctx context.Context, cfg Config) error { return service.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It never migrates: it waits for its schema. The history service may be away: what
// it says is made up for when it is back.
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
	summaries := feed.Summaries{History: history, Store: listings, Tel: tel}
	ready := new(server.Ready)
	ready.Add("snapshot", live.Loaded) // it cannot be there before the schema is
	problems := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	engine := web.New(problems)
	httpapi.API{Catalog: live, Curation: listings, Listings: listings, Reviews: listings, Now: cfg.Now, PublicURL: cfg.PublicURL}.
		Routes(engine, problems, cfg.Tokens, ready)
	tel.Registry.MustRegister(append(gauges(live), freshnessCollector{live})...)

	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", public, tel.Handler(engine))
	group.Go("catalog", func(ctx context.Context) error {
		if err := db.Await(ctx, tel, migrations.Files); err != nil {
			return err
		}
		group.Go("summaries", summaries.Run)
		return live.Run(ctx)
	})
	return group.Wait()
}
