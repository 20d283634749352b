package plan

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// billingChanges is the name of billing's changes in feed_copies.
const billingChanges = billingActor

// SeenChange returns the newest change of billing's database that SeeChange has stored.
func (s *Store) SeenChange(ctx context.Context) (api.FeedMark, error) {
	newest, _, err := database.SeenMark(s.db.WithContext(ctx), billingChanges)
	return newest, err
}

// SeeChange stores a change of billing's database, unless a newer one is stored.
func (s *Store) SeeChange(ctx context.Context, change api.FeedMark) error {
	return database.Outage(database.SaveMark(s.db.WithContext(ctx), billingChanges, change))
}
