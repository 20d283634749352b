// Package usage stores the usage of accounts: the ledger of the daily counters, the outcomes of requests by key, and the moves of
// usage between accounts.
package usage

import "opportunity.internal/services/authquota/internal/dbtx"

// Store stores usage. It reads the names of keys from their table, and writes when each was last used.
type Store struct{ db *dbtx.DB }

// NewStore returns a Store.
func NewStore(db *dbtx.DB) *Store { return &Store{db} }
