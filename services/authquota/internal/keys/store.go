// Package keys stores keys and key requests.
package keys

import (
	"context"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Store stores keys and key requests.
type Store struct{ db *dbtx.DB }

// NewStore returns a Store.
func NewStore(db *dbtx.DB) *Store { return &Store{db} }

// ActiveKeys returns the number of active keys of each account, without those in their grace period.
func (s *Store) ActiveKeys(ctx context.Context, accounts []string) (map[string]int, error) {
	var rows []struct {
		AccountID string
		Keys      int
	}
	err := s.db.WithContext(ctx).Raw("SELECT k.account_id, count(*) AS keys FROM api_keys k WHERE k.account_id IN ? AND "+counts+
		" GROUP BY k.account_id", accounts, database.Micros(s.db.Now())).Scan(&rows).Error
	active := make(map[string]int, len(rows))
	for _, r := range rows {
		active[r.AccountID] = r.Keys
	}
	return active, database.Outage(err)
}

// OpenRequests returns the open requests of an account, oldest first.
func (s *Store) OpenRequests(ctx context.Context, id string) ([]Request, error) {
	var rows []requestRow
	err := s.db.WithContext(ctx).Order("asked_at, id").Find(&rows, "account_id = ? AND state IN ?", id, openStates).Error
	return toRequests(rows), database.Outage(err)
}
