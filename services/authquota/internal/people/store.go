// Package people stores people: how they sign in, their second factors, and their addresses and passwords.
package people

import "opportunity.internal/services/authquota/internal/dbtx"

// Store stores people.
type Store struct{ db *dbtx.DB }

// NewStore returns a Store.
func NewStore(db *dbtx.DB) *Store { return &Store{db} }

// SealedColumns returns the columns of sealed texts.
func SealedColumns() []dbtx.Sealed {
	return []dbtx.Sealed{
		{Table: "people", ID: "account_id", Column: "totp_seed", Context: seedContext},
		{Table: "sessions", ID: "id", Column: "new_seed", Context: newSeedContext},
	}
}
