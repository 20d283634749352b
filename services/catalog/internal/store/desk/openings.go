package desk

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/review"
)

// Open records that an operator opened a source from a review sheet.
func (s *Store) Open(ctx context.Context, id, operator string, o api.OpeningRequest) error {
	tx := s.db.WithContext(ctx)
	if err := exists(tx, id); err != nil {
		return err
	}
	return database.Outage(tx.Exec(`INSERT INTO openings (listing_id, operator, event_id, source_url, opened_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (listing_id, operator) DO UPDATE SET event_id = excluded.event_id,
			source_url = excluded.source_url, opened_at = excluded.opened_at`,
		id, operator, o.LastEventID, o.SourceURL, database.Micros(s.now())).Error)
}

// NeedsOpening reports whether an unchanged review by the operator, on the sheet with the newest
// event eventID, is accepted only after an opening, and returns the opened source, empty if there
// is none.
func (s *Store) NeedsOpening(ctx context.Context, id, operator, eventID string) (needs bool, opened string, err error) {
	tx := s.db.WithContext(ctx)
	var secret string // of this database
	if err := tx.Raw("SELECT id FROM generations ORDER BY began_at DESC, id LIMIT 1").Scan(&secret).Error; err != nil {
		return false, "", database.Outage(err)
	}
	if !review.NeedsOpening(secret, id, operator, eventID) {
		return false, "", nil
	}
	err = tx.Raw("SELECT source_url FROM openings WHERE listing_id = ? AND operator = ? AND event_id = ?",
		id, operator, eventID).Scan(&opened).Error
	return true, opened, database.Outage(err)
}
