// Package catalog is the service that keeps the listings and answers the list and the detail operation.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/config"
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

const usage = "usage: catalog serve | migrate | check"

// Main runs one verb with settings from the environment. serve answers until ctx ends; migrate brings the schema up to date;
// check tells whether the settings are right, the schema is there and the history service answers.
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
	tel, err := telemetry.Start(ctx, "catalog", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	return database.Migrate(ctx, cfg.Database, tel, migrations.Files)
}

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
	service, operations, err := cfg.Server.Open(ctx)
	if err != nil {
		return err
	}

	listings := store.New(db, cfg.Now)
	live := snapshot.NewLive(listings, cfg.Now, tel.Log)
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	history := peer.New(cfg.HistoryURL, cfg.Tokens, tel.Transport(transport, "history"))
	ready := new(server.Ready)
	ready.Add("snapshot", live.Loaded) // it cannot be there before the schema is
	refusals := problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}
	engine := web.New(refusals)
	httpapi.API{Catalog: live, Curation: listings, Listings: listings, PublicURL: cfg.PublicURL}.
		Routes(engine, refusals, cfg.Tokens, ready)
	tel.Registry.MustRegister(gauges(live)...)

	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", service, tel.Handler(engine))
	group.Go("catalog", func(ctx context.Context) error {
		if err := db.Await(ctx, tel, migrations.Files); err != nil {
			return err
		}
		group.Go("summaries", func(ctx context.Context) error { return feed.Follow(ctx, history, listings, tel.Log) })
		return live.Run(ctx)
	})
	return group.Wait()
}

func gauges(live *snapshot.Live) []prometheus.Collector {
	gauge := func(name, help string, value func(snapshot.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(live.Stats()) })
	}
	return []prometheus.Collector{
		gauge("catalog_records", "Published records in memory.", func(s snapshot.Stats) float64 { return float64(s.Records) }),
		gauge("catalog_sequence", "Position in the change sequence up to which changes are in memory.",
			func(s snapshot.Stats) float64 { return float64(s.Sequence) }),
		gauge("catalog_source_age_seconds", "Time since the database last answered.",
			func(s snapshot.Stats) float64 { return s.Age.Seconds() }),
	}
}

// check reports everything that would keep the service from doing its work.
func check(ctx context.Context, cfg Config) error {
	tel, err := telemetry.Start(ctx, "catalog", cfg.Telemetry)
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
	return errors.Join(db.Current(ctx, migrations.Files), answers(ctx, "history", cfg.HistoryURL))
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
