package gateway

import (
	"context"
	"errors"
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
	shown    []api.TierLimits
	known    atomic.Bool
}

// ready returns an error until the documents show figures.
func (f *figures) ready(context.Context) error {
	if !f.known.Load() {
		return errors.New("tier table not fetched from authquota yet")
	}
	return nil
}

// refresh fetches the tier table. While authquota is unavailable the documents keep the last figures.
func (f *figures) refresh(ctx context.Context) error {
	tiers, err := f.fetch(ctx)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(tiers, f.shown) {
		if err := f.pages.Show(docs.Figures{Tiers: tiers, Capacity: f.capacity}); err != nil {
			return err
		}
		f.shown = tiers
	}
	f.known.Store(true)
	return nil
}
