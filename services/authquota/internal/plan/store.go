// Package plan stores what accounts have paid for.
package plan

import "opportunity.internal/services/authquota/internal/dbtx"

// Store stores entitlements.
type Store struct{ db *dbtx.DB }

// NewStore returns a Store.
func NewStore(db *dbtx.DB) *Store { return &Store{db} }
