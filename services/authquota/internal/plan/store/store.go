// Package store stores what accounts have paid for.
package store

import "opportunity.internal/services/authquota/internal/dbtx"

// Store stores entitlements.
type Store struct{ db *dbtx.DB }

// New returns a Store.
func New(db *dbtx.DB) *Store { return &Store{db} }
