package catalog

import (
	"context"
	"log/slog"
	"time"

	"opportunity.internal/services/catalog/internal/store"
)

// indexInterval is the time between repairs of the listing index. Changes by this release keep it up to date; a repair adds
// the listings from before an upgrade, and changes by replicas of an older release.
const indexInterval = time.Minute

// keepIndex repairs the index of listings until ctx ends. While the database fails, it retries.
func keepIndex(ctx context.Context, listings *store.Store, log *slog.Logger) error {
	for {
		if err := listings.RepairIndex(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "listing index repair failed, will retry", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(indexInterval):
		}
	}
}
