// Package feed pulls what the catalog says of its listings into the history's own copy. The copy decides on the request path
// whether a listing is public, so an outage of the catalog costs readers nothing; the feed catches up afterwards.
package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/store"
)

// Listings pulls the catalog's listing states.
type Listings struct {
	catalog *peer.Client
	store   *store.Store
	tel     *telemetry.Telemetry
	cursor  prometheus.Gauge
}

// New makes the feed.
func New(catalog *peer.Client, store *store.Store, tel *telemetry.Telemetry) *Listings {
	cursor := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "history_listings_cursor", Help: "Sequence up to which the catalog's listings were copied by this process.",
	})
	tel.Registry.MustRegister(cursor)
	return &Listings{catalog, store, tel, cursor}
}

// Run pulls until ctx ends. While the catalog or the database is away it tries again with growing pauses.
func (l *Listings) Run(ctx context.Context) error { return feed.Follow(ctx, l.tel, "listings", l.pull) }

// CatchUp pulls until the catalog has nothing newer.
func (l *Listings) CatchUp(ctx context.Context) error { return feed.CatchUp(ctx, l.pull) }

// pull asks once for what is newer than the copy, waiting for it up to wait, and saves it.
func (l *Listings) pull(ctx context.Context, wait time.Duration) (got int, err error) {
	after, err := l.store.ListingsCursor(ctx)
	if err != nil {
		return 0, err
	}
	var page api.ListingFeed
	if err := l.catalog.Get(ctx, "/internal/v1/listings"+feed.Query(after, wait), &page); err != nil {
		return 0, err
	}
	got = len(page.Listings)
	if got == 0 {
		return 0, nil
	}
	last := page.Listings[got-1].Sequence
	if last <= after { // would be asked for again without end
		return 0, fmt.Errorf("catalog answered sequence %d to a request for what is after %d", last, after)
	}
	if err := l.store.SaveListings(ctx, page.Listings); err != nil {
		return 0, err
	}
	l.cursor.Set(float64(last))
	return got, nil
}
