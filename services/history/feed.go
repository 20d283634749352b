package history

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/services/history/internal/store"
)

// listings returns the copy of the catalog's listing states in events. Requests use the copy to check whether a listing is public, so
// an outage of the catalog does not affect readers.
func listings(catalog *peer.Client, events *store.Store, registry prometheus.Registerer) feed.Copy[api.ListingState] {
	cursor := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "history_listings_cursor", Help: "Sequence of the last listing state that this process copied from the catalog.",
	})
	registry.MustRegister(cursor)
	return feed.Copy[api.ListingState]{
		Name:     "listings",
		Sequence: func(l api.ListingState) int64 { return l.Sequence },
		Position: events.ListingsCursor,
		Fetch: func(ctx context.Context, query string) ([]api.ListingState, error) {
			var page api.ListingFeed
			err := catalog.Get(ctx, "/internal/v1/listings"+query, &page)
			return page.Listings, err
		},
		Save: func(ctx context.Context, states []api.ListingState) error {
			if err := events.SaveListings(ctx, states); err != nil {
				return err
			}
			cursor.Set(float64(states[len(states)-1].Sequence))
			return nil
		},
	}
}
