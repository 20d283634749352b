// Package store stores the history in a database: append-only events, a summary for each listing, checkpoints, the state of link
// checks, and a copy of the catalog's listing states.
package store

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// Store is the history in one database. Its methods return problem.Unavailable during an outage of the database.
type Store struct {
	db        *database.DB
	appending chan struct{} // holds one element while an append of this process runs
	appended  atomic.Int64
}

// New returns a store on db, which must have the schema of package migrations.
func New(db *database.DB) *Store { return &Store{db: db, appending: make(chan struct{}, 1)} }

// Appended returns the number of events that this process has recorded, without duplicates.
func (s *Store) Appended() int64 { return s.appended.Load() }

type listingRow struct {
	ID             string `gorm:"primaryKey"`
	Sequence       int64
	Published      bool
	ApplicationURL string
}

func (listingRow) TableName() string { return "listings" }

const batchSize = 500 // rows of one statement, limited by its number of parameters

// SaveListings saves listing states of the catalog in one transaction. It ignores states older than the stored ones, so replicas
// may pull the same page concurrently.
func (s *Store) SaveListings(ctx context.Context, states []api.ListingState) error {
	if len(states) == 0 {
		return nil
	}
	rows := make([]listingRow, len(states))
	for i, l := range states {
		rows[i] = listingRow{ID: l.ID, Sequence: l.Sequence, Published: l.Published, ApplicationURL: l.ApplicationURL}
	}
	slices.SortFunc(rows, func(a, b listingRow) int { return strings.Compare(a.ID, b.ID) }) // the same lock order in every replica
	newer := clause.OnConflict{
		Columns:   []clause.Column{{Name: "id"}},
		DoUpdates: clause.AssignmentColumns([]string{"sequence", "published", "application_url"}),
		Where:     clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "excluded.sequence > listings.sequence"}}},
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return tx.Clauses(newer).CreateInBatches(rows, batchSize).Error
	}))
}

// ListingsCursor returns the sequence up to which listing states are copied. Pages are saved completely and in order, so it is the
// greatest stored sequence; a separate record of the position could disagree.
func (s *Store) ListingsCursor(ctx context.Context) (int64, error) {
	var cursor int64
	err := s.db.WithContext(ctx).Raw("SELECT coalesce(max(sequence), 0) FROM listings").Scan(&cursor).Error
	return cursor, database.Outage(err)
}

// UnknownListings returns the subset of slugs without a listing in the copy, published or not.
func (s *Store) UnknownListings(ctx context.Context, slugs []string) (map[string]bool, error) {
	unknown := make(map[string]bool, len(slugs))
	for _, slug := range slugs {
		unknown[slug] = true
	}
	for some := range slices.Chunk(slugs, batchSize) {
		var known []string
		err := s.db.WithContext(ctx).Raw("SELECT id FROM listings WHERE id IN ?", some).Scan(&known).Error
		if err != nil {
			return nil, database.Outage(err)
		}
		for _, slug := range known {
			delete(unknown, slug)
		}
	}
	return unknown, nil
}
