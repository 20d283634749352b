// Package history implements the history service. It stores append-only verification events,
// derives the summary of each listing from them, and proves them with a transparency log.
//
// Config has the settings, Run serves, and Main runs a verb. Here the parts of the service are
// wired: the store, the HTTP API, the copy of the catalog's listings (package feed), the feed of
// summaries that the catalog follows, and the loops that sign the log. CheckLinks, Verify, Prove
// and Recover are the work of the other verbs; the command "opportunity" calls them too.
package history

import (
	"context"
	"errors"
	"os"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/httpapi"
	"opportunity.internal/services/history/internal/store"
)

var definition = service.Definition[Config]{
	Name: "history", Migrations: store.Migrations, Start: start,
	Base: func(c Config) service.Base {
		return service.Base{Server: c.Server, Telemetry: c.Telemetry, Database: c.Database, TLS: c.TLS, Peers: c.Peers,
			Now: c.Now}
	},
	Check: func(ctx context.Context, r *service.Runtime, c Config) error {
		return r.CheckPeer(ctx, peer.Catalog, c.CatalogURL, c.Tokens)
	},
}

// Main runs one verb with settings from the environment:
//
//   - serve serves requests until ctx ends.
//   - migrate brings the schema up to date.
//   - check checks the settings, the schema and the connection to the catalog.
//   - check-links checks the due application links.
//   - prove writes an event with the proof that the log has it.
//   - recover decides what becomes of a database that was set back; see Recover.
//   - verify verifies all events against the log. It returns ErrMismatch if they do not match.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return definition.Main(ctx, lookup, args, map[string]service.Verb[Config]{
		"check-links": {Load: loadForLinks, Help: "Check the application links that are due.",
			Run: func(ctx context.Context, c Config, _ []string) error { return checkLinks(ctx, c, os.Stdout) }},
		"prove": {
			Load: ProofConfig, Usage: "EVENT_ID", Help: "Write an event with the proof that the log has it.",
			Run: func(ctx context.Context, c Config, args []string) error {
				if len(args) != 1 {
					return errors.New("usage: history prove EVENT_ID")
				}
				return Prove(ctx, c, args[0], os.Stdout)
			},
		},
		"recover": service.RecoverVerb("history", ProofConfig, Recover),
		"verify": {Load: ProofConfig, Usage: "[--against FILE]... [--output text|json]",
			Help: "Verify all events against the log, and checkpoints that were saved elsewhere.",
			Run: func(ctx context.Context, c Config, args []string) error {
				return Verify(ctx, c, args, os.Stdout)
			}},
	})
}

// Migrate migrates the database to the schema of this binary.
func Migrate(ctx context.Context, cfg Config) error { return definition.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It does not migrate the database; it waits for the
// schema.
func Run(ctx context.Context, cfg Config) error { return definition.Run(ctx, cfg) }

func start(r *service.Runtime, cfg Config) error {
	events := store.New(r.DB)
	log, err := cfg.Proof.Log(events, cfg.PublicURL)
	if err != nil {
		return err
	}
	log.Now, log.Log = r.Now, r.Log
	// Requests use the copy of the listings to check whether one is public, so an outage of the
	// catalog does not affect readers.
	listings := feed.Copy[api.ListingState]{
		Name:     "listings",
		Get:      r.Peer(peer.Catalog, cfg.CatalogURL, cfg.Tokens).Get,
		Path:     "/internal/v1/listings",
		Sequence: func(l api.ListingState) int64 { return l.Sequence },
		Store:    store.NewListings(r.DB),
	}
	guard := r.Guard("verification_events", nil)
	r.Registry.MustRegister(appended(events), storedMetrics{events, log})
	r.Ready.Add("schema", r.SchemaReady)

	problems := problem.Writer{BaseURL: cfg.PublicURL, Log: r.Log}
	engine := web.New(problems)
	httpapi.API{
		Store: events, Log: log, CatchUp: listings.CatchUp, PublicURL: cfg.PublicURL, Now: r.Now,
		Query: database.NewBreaker(0).Run, RequireQuotes: cfg.RequireQuotes, ReadNow: cfg.ReadNow,
		Summaries: summaries(guard, events),
	}.Routes(engine, problems, &r.Ready)
	access := peer.NewAccess(peer.History, cfg.Callers, problems)
	r.Handle(server.ServicePort, r.InternalHandler(access.Handler(guard.Handler(engine, problems))))

	r.WatchPeer(peer.Catalog, cfg.CatalogURL, cfg.Tokens)
	r.Go("listings feed", func(ctx context.Context) error { return listings.Follow(ctx, r.Log, r.Registry) })
	return sign(r, log, guard)
}

// sign registers the loops that sign checkpoints and have witnesses cosign them.
func sign(r *service.Runtime, log checkpoint.Log, guard *setback.Guard) error {
	witnesses := witnessFailures(r.Registry)
	if !log.Keys.Signs() {
		r.Log.Warn("checkpoints disabled: OPPORTUNITY_HISTORY_SIGNING_KEY is not set")
		return nil
	}
	log.Lost = func(ctx context.Context) error { return guard.Claim(ctx, "witness") }
	r.Every(service.Loop{Name: "log checkpoint", Interval: logInterval, Do: guard.UnlessSetBack(log.Sign)})
	if len(log.Witnesses) > 0 {
		r.Every(service.Loop{Name: "witnesses", Interval: logInterval, Retry: 10 * time.Second,
			Do: guard.UnlessSetBack(func(ctx context.Context) error {
				err := log.Cosign(ctx)
				if err != nil && ctx.Err() == nil {
					witnesses.Inc()
				}
				return err
			})})
	}
	return nil
}

// logInterval is the longest time between the moment when the catalog has seen an event and its
// checkpoint of the log.
const logInterval = 2 * time.Second

// summaries returns the feed of summaries. Its marks record the events that the catalog has seen.
func summaries(guard *setback.Guard, events *store.Store) feed.Source[api.EncodedSummary] {
	s := service.Feed(guard, events.Summaries)
	verify := s.Verify
	s.Verify = func(ctx context.Context, mark string, position int64) (newest string, lost bool, err error) {
		if newest, lost, err = verify(ctx, mark, position); err != nil || lost {
			return newest, lost, err
		}
		seen, _ := setback.Parse(mark)
		return newest, lost, events.Cover(ctx, seen.Sequence)
	}
	return s
}
