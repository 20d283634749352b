package store

import (
	"context"
	"slices"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
)

// withheld is the claim of a catalog that was set back, after an operator accepted the loss:
// history has not said yet which records were withdrawn since the backup.
const withheld = "withheld"

// WithholdLater keeps the service stopped until EndWithhold.
func WithholdLater(tx *gorm.DB) error {
	return tx.Exec("INSERT INTO claims (mark) VALUES (?)", withheld).Error
}

// MustWithhold reports whether the service is stopped until EndWithhold.
func (s *Store) MustWithhold(ctx context.Context) (must bool, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT EXISTS (SELECT 1 FROM claims WHERE mark = ?)", withheld).Scan(&must).Error
	return must, database.Outage(err)
}

// Withhold withdraws the public listings among those with the ids, and returns their ids.
func (s *Store) Withhold(ctx context.Context, known []string) (ids []string, err error) {
	for part := range slices.Chunk(known, batch) {
		var public []string
		if err := s.db.WithContext(ctx).Raw("SELECT id FROM listings WHERE visibility = ? AND id IN ? ORDER BY id",
			listingfile.Published, part).
			Scan(&public).Error; err != nil {
			return nil, database.Outage(err)
		}
		ids = append(ids, public...)
	}
	if len(ids) > 0 {
		_, err = s.Withdraw(ctx, "catalog recover", ids, "withdrawn after the backup that was restored")
	}
	return ids, err
}

// EndWithhold ends the state of WithholdLater.
func (s *Store) EndWithhold(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).Exec("DELETE FROM claims WHERE mark = ?", withheld).Error)
}
