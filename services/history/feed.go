package history

import (
	"context"
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/history/internal/store"
)

// listings returns the copy of the catalog's listing states. Requests use the copy to check whether
// a listing is public, so an outage of the catalog does not affect readers.
func listings(catalog *peer.Client, copied store.Listings, registry prometheus.Registerer) feed.Copy[api.ListingState] {
	cursor := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "history_listings_cursor",
		Help: "Sequence of the last listing state that this process copied from the catalog.",
	})
	registry.MustRegister(cursor)
	return feed.Copy[api.ListingState]{
		Name:      "listings",
		Sequence:  func(l api.ListingState) int64 { return l.Sequence },
		Cursor:    copied.Cursor,
		StartOver: copied.StartOver,
		Prune:     copied.Prune,
		Fetch: func(ctx context.Context, query string) (feed.Page[api.ListingState], error) {
			var page api.ListingFeed
			err := catalog.Get(ctx, "/internal/v1/listings"+query, &page)
			return feed.Page[api.ListingState]{Changes: page.Listings, Mark: page.Mark, StartOver: page.StartOver}, err
		},
		Save: func(ctx context.Context, from feed.Cursor, states []api.ListingState, to feed.Cursor) error {
			if err := copied.Save(ctx, from, states, to); err != nil {
				return err
			}
			cursor.Set(float64(to.Position))
			return nil
		},
	}
}

// cover returns the verification of a mark of the catalog, which records the events that the
// catalog has seen.
func cover(guard *setback.Guard, events *store.Store) feed.Verify {
	return func(ctx context.Context, mark string) (newest string, lost bool, err error) {
		if newest, lost, err = guard.Present(ctx, mark); err != nil || lost {
			return newest, lost, err
		}
		seen, _ := setback.Parse(mark)
		return newest, lost, events.Cover(ctx, seen.Sequence)
	}
}

// Recover ends the state of a database that was set back. The catalog then copies all statuses
// again, and the log has another origin.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error { return r.Recover(ctx, decision, out, nil) })
}
