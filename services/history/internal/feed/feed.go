// Package feed copies listing states from the catalog. Requests use the copy to check whether a listing is public, so readers are
// not affected by an outage of the catalog. The feed catches up afterwards.
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

// New returns a feed from catalog to store and registers its metric.
func New(catalog *peer.Client, store *store.Store, tel *telemetry.Telemetry) *Listings {
	cursor := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "history_listings_cursor", Help: "Sequence of the last listing state that this process copied from the catalog.",
	})
	tel.Registry.MustRegister(cursor)
	return &Listings{catalog, store, tel, cursor}
}

// Run pulls listing states until ctx ends. It retries failed pulls with exponential backoff.
func (l *Listings) Run(ctx context.Context) error { return feed.Follow(ctx, l.tel, "listings", l.pull) }

// CatchUp pulls until the copy is up to date.
func (l *Listings) CatchUp(ctx context.Context) error { return feed.CatchUp(ctx, l.pull) }

// pull saves one page of newer listing states and returns their number. It waits up to wait for the first one.
func (l *Listings) pull(ctx context.Context, wait time.Duration) (n int, err error) {
	after, err := l.store.ListingsCursor(ctx)
	if err != nil {
		return 0, err
	}
	var page api.ListingFeed
	if err := l.catalog.Get(ctx, "/internal/v1/listings"+feed.Query(after, wait), &page); err != nil {
		return 0, err
	}
	n = len(page.Listings)
	if n == 0 {
		return 0, nil
	}
	last := page.Listings[n-1].Sequence
	if last <= after { // would cause an endless loop
		return 0, fmt.Errorf("catalog returned sequence %d to a request for sequences after %d", last, after)
	}
	if err := l.store.SaveListings(ctx, page.Listings); err != nil {
		return 0, err
	}
	l.cursor.Set(float64(last))
	return n, nil
}
