package gateway

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway/internal/docs"
)

// Intervals of fetching the tier table: until the first success, and after it. tiersRefresh bounds the delay of a changed setting.
const (
	tiersRetry   = time.Second
	tiersRefresh = 30 * time.Second
	tiersTimeout = 5 * time.Second
)

// figures keeps the served documents at the limits in effect: the tier table of authquota, and this gateway's service capacity.
type figures struct {
	pages    *docs.Site
	capacity int
	fetch    func(context.Context) ([]api.TierLimits, error)
	log      *slog.Logger
	known    atomic.Bool
}

// ready returns an error until the documents show figures.
func (f *figures) ready(context.Context) error {
	if !f.known.Load() {
		return errors.New("tier table not fetched from authquota yet")
	}
	return nil
}

// run fetches the tier table until ctx ends. While authquota is unavailable the documents keep the last figures.
func (f *figures) run(ctx context.Context) error {
	var shown []api.TierLimits
	failing := false
	for {
		wait := tiersRefresh
		tiers, err := f.fetchOnce(ctx)
		if err == nil && !reflect.DeepEqual(tiers, shown) {
			err = f.pages.Show(docs.Figures{Tiers: tiers, Capacity: f.capacity})
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			wait = tiersRetry
			if !failing {
				f.log.WarnContext(ctx, "background loop failing", "loop", "tier table", "error", err.Error())
			}
		default:
			shown = tiers
			f.known.Store(true)
			if failing {
				f.log.InfoContext(ctx, "background loop recovered", "loop", "tier table")
			}
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (f *figures) fetchOnce(ctx context.Context) ([]api.TierLimits, error) {
	ctx, cancel := context.WithTimeout(ctx, tiersTimeout)
	defer cancel()
	return f.fetch(ctx)
}
