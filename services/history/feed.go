package history

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/services/history/internal/store"
)

// listings returns the copy of the catalog's listing states. Requests use the copy to check whether a listing is public, so
// an outage of the catalog does not affect readers.
func listings(catalog *peer.Client, copied store.Listings, registry prometheus.Registerer, log *slog.Logger) feed.Copy[api.ListingState] {
	cursor := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "history_listings_cursor", Help: "Sequence of the last listing state that this process copied from the catalog.",
	})
	registry.MustRegister(cursor)
	return feed.Copy[api.ListingState]{
		Name:     "listings",
		Sequence: func(l api.ListingState) int64 { return l.Sequence },
		Position: copied.Cursor,
		Prune:    copied.Prune,
		StartOver: func(ctx context.Context, seen api.FeedMark) error {
			log.WarnContext(ctx, "copying all listing states again: the catalog accepted the loss of changes", "last_seen", seen.String())
			return copied.StartOver(ctx, seen)
		},
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

// reportToCatalog reports the newest checkpoint to the catalog, and returns what the catalog has seen of the history. It is the zero value
// for a release without that endpoint.
func reportToCatalog(catalog *peer.Client, events *store.Store) func(context.Context) (api.Seen, error) {
	return func(ctx context.Context) (seen api.Seen, err error) {
		newest, _, err := events.LastCheckpoint(ctx)
		if err != nil {
			return seen, err
		}
		err = catalog.Post(ctx, api.SeenPath, api.SignedCheckpoint{Number: newest.Number, Note: newest.Note}, &seen)
		if failed := new(peer.StatusError); errors.As(err, &failed) && failed.Status == http.StatusNotFound {
			err = nil
		}
		return seen, err
	}
}
