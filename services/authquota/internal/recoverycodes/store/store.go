// Package store reads the recovery codes of accounts. The features of people change them.
package store

import (
	"context"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Store reads recovery codes.
type Store struct{ db *dbtx.DB }

// New returns a Store.
func New(db *dbtx.DB) *Store { return &Store{db} }

// Unused reports whether all hashes are those of different unused codes of the account.
func (s *Store) Unused(ctx context.Context, accountID string, hashes []string) (bool, error) {
	var found int
	err := s.db.WithContext(ctx).Raw("SELECT count(*) FROM recovery_codes WHERE account_id = ? AND hash IN ? AND used_at IS NULL", accountID, hashes).
		Scan(&found).Error
	return found == len(hashes), database.Outage(err)
}
