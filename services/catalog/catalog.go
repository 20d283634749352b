// Package catalog is the service that stores listings and serves the published ones to consumers.
//
// Curators import, publish and withdraw listings. Verification comes from the history service
// alone, as summaries that catalog copies. Lists and records are served from a snapshot in memory,
// so they survive a database outage of up to snapshot.MaxAge.
package catalog

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/catalog/internal/httpapi"
	"opportunity.internal/services/catalog/internal/snapshot"
	"opportunity.internal/services/catalog/internal/store"
	"opportunity.internal/services/catalog/internal/store/curation"
)

// Config holds the settings of the service.
type Config struct {
	Server    server.Config
	Telemetry telemetry.Config
	Database  database.Config
	Tokens    peer.Tokens
	Callers   peer.Callers
	TLS       certificate.ServerConfig
	Peers     certificate.PeerConfig

	PublicURL  string `env:"OPPORTUNITY_PUBLIC_URL,required,notEmpty" doc:"Address under which consumers reach the gateway, without a trailing slash."`
	HistoryURL string `env:"OPPORTUNITY_HISTORY_URL,required,notEmpty" doc:"Service port of the history service, without a trailing slash."`

	Now func() time.Time `env:"-"` // nil: time.Now
}

// Validate returns an error that names every missing or invalid setting.
func (c Config) Validate() error {
	return errors.Join(c.Database.Validate(), c.Tokens.Validate(peer.History), c.Callers.Validate(peer.Catalog),
		c.TLS.Validate(), c.Peers.Validate(map[string]string{"OPPORTUNITY_HISTORY_URL": c.HistoryURL}),
		config.Address("OPPORTUNITY_PUBLIC_URL", c.PublicURL), config.Address("OPPORTUNITY_HISTORY_URL", c.HistoryURL))
}

var definition = service.Definition[Config]{
	Name: "catalog", Migrations: store.Migrations, Start: start,
	Base: func(c Config) service.Base {
		return service.Base{Server: c.Server, Telemetry: c.Telemetry, Database: c.Database, TLS: c.TLS, Peers: c.Peers,
			Now: c.Now}
	},
	Check: func(ctx context.Context, r *service.Runtime, c Config) error {
		return r.CheckPeer(ctx, peer.History, c.HistoryURL, c.Tokens)
	},
}

// Main runs one verb with settings from the environment. serve runs the service until ctx ends;
// migrate updates the schema; check verifies the settings, the schema and that the history service
// is reachable; recover decides what becomes of a database that was set back.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return definition.Main(ctx, lookup, args, map[string]service.Verb[Config]{
		"recover": service.RecoverVerb("catalog", RecoverConfig, Recover),
	})
}

// Migrate updates the schema of cfg.Database to the version this binary needs.
func Migrate(ctx context.Context, cfg Config) error { return definition.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It does not migrate but waits for the schema. After
// an outage of the history service it catches up automatically.
func Run(ctx context.Context, cfg Config) error { return definition.Run(ctx, cfg) }

// sampleInterval is the time between updates of the day's freshness sample.
const sampleInterval = time.Minute

func start(r *service.Runtime, cfg Config) error {
	listings := store.New(r.DB, r.Now)
	work := curation.New(r.DB, r.Now)
	live := snapshot.NewLive(listings, r.Now, r.Log)
	history := r.Peer(peer.History, cfg.HistoryURL, cfg.Tokens)
	// the copy of history's summaries; its position is stored with them, so it resumes after an outage
	copied := feed.Copy[api.EncodedSummary]{
		Name: "summaries", Get: history.Get, Path: "/internal/v1/summaries", Store: listings,
		Sequence: func(s api.EncodedSummary) int64 { return s.Sequence },
	}
	guard := r.Guard("changes", func(ctx context.Context, g *setback.Guard) error {
		return withhold(ctx, r, g, history, listings)
	})
	r.Ready.Add("snapshot", live.Loaded) // includes the schema: loading needs it
	r.Registry.MustRegister(collector{live})

	problems := problem.Writer{BaseURL: cfg.PublicURL, Log: r.Log}
	engine := web.New(problems)
	handlers := httpapi.API{
		Catalog: live, Compressed: httpapi.NewCache(httpapi.MaxBytes), Listings: listings, Curation: work, History: history,
		Feed: service.Feed(guard, listings.Listings), CatchUp: copied.CatchUp, Now: r.Now, PublicURL: cfg.PublicURL,
	}
	handlers.Routes(engine, problems, &r.Ready)
	access := peer.NewAccess(peer.Catalog, cfg.Callers, problems)
	r.Handle(server.ServicePort, r.InternalHandler(access.Handler(guard.Handler(engine, problems))))

	r.WatchPeer(peer.History, cfg.HistoryURL, cfg.Tokens)
	r.Go("summaries", func(ctx context.Context) error { return copied.Follow(ctx, r.Log, r.Registry) })
	r.Every(service.Loop{Name: "freshness sample", Interval: sampleInterval, Do: work.SampleFreshness})
	r.Every(service.Loop{Name: "snapshot", Interval: snapshot.PollInterval, Wake: listings.Changed, Do: live.Poll})
	return nil
}
