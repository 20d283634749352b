// Package store stores keys and key requests.
package store

import (
	"context"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Store stores keys and key requests.
type Store struct {
	db        *dbtx.DB
	moveUsage func(tx *dbtx.Tx, from, to string) error
}

// New returns a Store. moveUsage moves the usage of one account to another when its keys are connected.
func New(db *dbtx.DB, moveUsage func(tx *dbtx.Tx, from, to string) error) *Store {
	return &Store{db, moveUsage}
}

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

// Describe adds the keys and open requests of an account to its details.
func (s *Store) Describe(ctx context.Context, of *accountview.Details) error {
	var rows []requestRow
	err := s.db.WithContext(ctx).Order("asked_at, id").Find(&rows, "account_id = ? AND state IN ?", of.ID, openStates).Error
	if err != nil {
		return database.Outage(err)
	}
	of.Requests = toRequests(rows)
	of.Keys, err = s.OwnKeys(ctx, of.ID)
	return err
}
