// Package store stores people: how they sign in, their second factors, and their addresses and passwords.
package store

import "opportunity.internal/services/authquota/internal/dbtx"

// SignIns stores sign-ups, sign-ins, sessions and forgotten passwords.
type SignIns struct{ db *dbtx.DB }

// NewSignIns returns SignIns.
func NewSignIns(db *dbtx.DB) *SignIns { return &SignIns{db} }

// Factors stores authenticators, recovery codes and passkeys, and records their use.
type Factors struct{ db *dbtx.DB }

// NewFactors returns Factors.
func NewFactors(db *dbtx.DB) *Factors { return &Factors{db} }

// Profiles stores changes of the password and the address, and closes accounts.
type Profiles struct {
	db      *dbtx.DB
	endKeys func(tx *dbtx.Tx, accountID string) (keys int, err error)
}

// NewProfiles returns Profiles. endKeys ends the keys and key requests of an account that is being closed.
func NewProfiles(db *dbtx.DB, endKeys func(tx *dbtx.Tx, accountID string) (keys int, err error)) *Profiles {
	return &Profiles{db, endKeys}
}

// Sealed returns the columns of sealed texts.
func Sealed() []dbtx.Sealed {
	return []dbtx.Sealed{
		{Table: "people", ID: "account_id", Column: "totp_seed", Context: seedContext},
		{Table: "sessions", ID: "id", Column: "new_seed", Context: newSeedContext},
	}
}
