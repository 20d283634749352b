package store

import (
	"context"

	"opportunity.internal/services/history/internal/event"
)

// InsertRecord stores a record as it is.
func (s *Store) InsertRecord(ctx context.Context, r event.Record) error {
	row := eventRow(r)
	return s.db.WithContext(ctx).Create(&row).Error
}
