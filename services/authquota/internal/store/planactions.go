package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// RecordPlanAction writes an audit log entry for a person's action on the account's plan.
func (s *Store) RecordPlanAction(ctx context.Context, accountID, action string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		return record(tx, now, accountID, action, accountID, map[string]any{})
	})
}
