package store

import (
	"context"

	"opportunity.internal/services/history/internal/event"
)

// InsertRecord stores a record as it is.
func (s *Store) InsertRecord(ctx context.Context, r event.Record) error {
	return s.db.WithContext(ctx).Create(&r).Error
}
