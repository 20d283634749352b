package store

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// Witness records a checkpoint that history reports, if it is newer than the recorded one, and returns what the catalog has seen of history.
func (s *Store) Witness(ctx context.Context, reported api.SignedCheckpoint) (seen api.Seen, err error) {
	db := s.db.WithContext(ctx)
	err = db.Exec("UPDATE witnessed SET number = ?, note = ? WHERE id = 1 AND number < ?", reported.Number, reported.Note, reported.Number).Error
	if err == nil {
		err = db.Raw("SELECT number, note FROM witnessed WHERE id = 1").Scan(&seen.Checkpoint).Error
	}
	if err == nil {
		seen.Mark, _, err = database.SeenMark(db, feedName)
	}
	return seen, database.Outage(err)
}
