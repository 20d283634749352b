package history

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/store"
)

// listings returns the copy of the catalog's listing states. Requests use the copy to check whether a listing is public, so
// an outage of the catalog does not affect readers.
func listings(catalog *peer.Client, copied store.Listings, registry prometheus.Registerer) feed.Copy[api.ListingState] {
	cursor := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "history_listings_cursor", Help: "Sequence of the last listing state that this process copied from the catalog.",
	})
	registry.MustRegister(cursor)
	return feed.Copy[api.ListingState]{
		Name:     "listings",
		Sequence: func(l api.ListingState) int64 { return l.Sequence },
		Position: copied.Cursor,
		Prune:    copied.Prune,
		Fetch: func(ctx context.Context, query string) (feed.Page[api.ListingState], error) {
			var page api.ListingFeed
			err := catalog.Get(ctx, "/internal/v1/listings"+query, &page)
			return feed.Page[api.ListingState]{Changes: page.Listings, StartOver: page.StartOver}, err
		},
		Save: func(ctx context.Context, states []api.ListingState) error {
			if err := copied.Save(ctx, states); err != nil {
				return err
			}
			cursor.Set(float64(states[len(states)-1].Sequence))
			return nil
		},
	}
}

// newGuard returns the guard of the history, and the Keeper of its marks, which is the catalog.
func newGuard(r *service.Runtime, cfg Config, log checkpoint.Log, events *store.Store, keeps ...highwater.Row) (*highwater.Guard, highwater.Keeper, error) {
	key, err := highwater.NewKey(peer.History, append(slices.Clone(cfg.Proof.SigningKeys), cfg.Tokens.Secrets()...)...)
	if err != nil {
		return nil, nil, err
	}
	catalog := highwater.Peer{Store: peer.History, Client: r.Peer(peer.Catalog, cfg.CatalogURL, cfg.Tokens)}
	return r.Guard(highwater.Owner{
		Store: peer.History, Key: key, Newest: events.Newest, Keeps: keeps,
		Has: hasOf(log, events),
	}, catalog), catalog, nil
}

// hasOf returns a function that reports whether the database has an event or a checkpoint.
func hasOf(log checkpoint.Log, events *store.Store) func(context.Context, highwater.Loss) (bool, error) {
	return func(ctx context.Context, l highwater.Loss) (bool, error) {
		if l.Kind == highwater.LogCheckpoint {
			return log.Has(ctx, l.Note)
		}
		return events.Has(ctx, l)
	}
}
