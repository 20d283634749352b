package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// RecordWish writes down that a person wants something done about the plan of the account.
func (s *Store) RecordWish(ctx context.Context, accountID, action string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		return record(tx, now, accountID, action, accountID, map[string]any{})
	})
}
