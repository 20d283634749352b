package history

import (
	"context"
	"io"

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
func listings(catalog *peer.Client, copied store.Listings) feed.Copy[api.ListingState] {
	return feed.Copy[api.ListingState]{
		Name:     "listings",
		Get:      catalog.Get,
		Path:     "/internal/v1/listings",
		Sequence: func(l api.ListingState) int64 { return l.Sequence },
		Store:    copied,
	}
}

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

// Recover ends the state of a database that was set back. The catalog then copies all statuses
// again, and the log has another origin.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error { return r.Recover(ctx, decision, out, nil) })
}
