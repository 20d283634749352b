// Package history is the service that keeps verification events, append-only, and what they come to.
package history

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/feed"
	"opportunity.internal/services/history/internal/httpapi"
	"opportunity.internal/services/history/internal/store"
	"opportunity.internal/services/history/migrations"
)

const usage = "usage: history serve | migrate | check"

// Main runs one verb with settings from the environment. serve answers until ctx ends; migrate brings the schema up to date;
// check tells whether the settings are right, the schema is there and the catalog answers.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	switch args[0] {
	case "migrate": // needs no more than the database, so that the job that runs it holds no other secret
		only, err := config.Load[struct {
			Telemetry telemetry.Config
			Database  database.Config
		}](lookup)
		if err = errors.Join(err, only.Database.Validate()); err != nil {
			return err
		}
		return Migrate(ctx, Config{Telemetry: only.Telemetry, Database: only.Database})
	case "serve", "check":
		cfg, err := config.Load[Config](lookup)
		if err != nil {
			return err
		}
		if args[0] == "check" {
			return check(ctx, cfg)
		}
		return Run(ctx, cfg)
	}
	return errors.New(usage)
}

// Migrate brings the schema of cfg.Database to what this binary was built for.
func Migrate(ctx context.Context, cfg Config) error {
	tel, err := telemetry.Start(ctx, "history", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	return database.Migrate(ctx, cfg.Database, tel, migrations.Files)
}

// Run serves until ctx ends, and then drains. It never migrates: it waits for its schema.
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
	service, operations, err := cfg.Server.Open(ctx)
	if err != nil {
		return err
	}

	ready := new(server.Ready)
	ready.Add("schema", func(ctx context.Context) error { return db.Current(ctx, migrations.Files) })
	events := store.New(db, tel.Registry)
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	listings := feed.New(peer.New(cfg.CatalogURL, cfg.Tokens, tel.Transport(transport, "catalog")), events, tel.Log, tel.Registry)
	refusals := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	engine := web.New(refusals)
	httpapi.API{Store: events, Catalog: listings, PublicURL: cfg.PublicURL, Now: cfg.Now}.Routes(engine, refusals, cfg.Tokens, ready)

	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", service, tel.Handler(engine))
	group.Go("listings feed", func(ctx context.Context) error {
		if err := db.Await(ctx, tel, migrations.Files); err != nil {
			return err
		}
		return listings.Run(ctx)
	})
	return group.Wait()
}

// check reports everything that would keep the service from being ready.
func check(ctx context.Context, cfg Config) error {
	tel, err := telemetry.Start(ctx, "history", cfg.Telemetry)
	if err != nil {
		return err
	}
	db, err := database.Open(cfg.Database, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return errors.Join(db.Current(ctx, migrations.Files), answers(ctx, "catalog", cfg.CatalogURL))
}

// answers asks whether a peer is there at all; whether it is ready is its own matter.
func answers(ctx context.Context, name, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return resp.Body.Close()
}
