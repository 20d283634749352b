// Package feed pulls what the catalog says of its listings into the history's own copy. The copy decides on the request path
// whether a listing is public, so an outage of the catalog costs readers nothing; the feed catches up afterwards.
package feed

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/services/history/internal/store"
)

const (
	longPoll   = 25 * time.Second
	answerTime = 10 * time.Second // what the catalog may take beyond the wait it was asked for
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// Listings pulls the catalog's listing states.
type Listings struct {
	catalog *peer.Client
	store   *store.Store
	log     *slog.Logger
	cursor  prometheus.Gauge
}

// New makes the feed; its metrics go to registry.
func New(catalog *peer.Client, store *store.Store, log *slog.Logger, registry prometheus.Registerer) *Listings {
	cursor := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "history_listings_cursor", Help: "Sequence up to which the catalog's listings were copied by this process.",
	})
	registry.MustRegister(cursor)
	return &Listings{catalog, store, log, cursor}
}

// Run pulls until ctx ends. While the catalog or the database is away it tries again with growing pauses.
func (l *Listings) Run(ctx context.Context) error {
	pause := firstPause
	for failing := false; ctx.Err() == nil; {
		got, err := l.pull(ctx, longPoll)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && got > 0:
			pause, failing = firstPause, false
			continue
		case err == nil:
			pause, failing = firstPause, false // and still wait: a catalog that is stopping answers at once
		case !failing:
			failing = true
			l.log.WarnContext(ctx, "cannot copy listings from the catalog, trying again", "error", err.Error())
		default:
			pause = min(2*pause, maxPause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // spreads replicas, protects nothing
		}
	}
	return nil
}

// CatchUp pulls until the catalog has nothing newer.
func (l *Listings) CatchUp(ctx context.Context) error {
	for {
		if got, err := l.pull(ctx, 0); err != nil || got == 0 {
			return err
		}
	}
}

// pull asks once for what is newer than the copy, waiting for it up to wait, and saves it.
func (l *Listings) pull(ctx context.Context, wait time.Duration) (got int, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+answerTime)
	defer cancel()
	after, err := l.store.ListingsCursor(ctx)
	if err != nil {
		return 0, err
	}
	var page api.ListingFeed
	path := "/internal/v1/listings?after=" + strconv.FormatInt(after, 10) + "&wait=" + wait.String()
	if err := l.catalog.Get(ctx, path, &page); err != nil {
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
