// Package store stores the history in a database: append-only events, a summary for each listing, the log, the state of link
// checks, and a copy of the catalog's listing states.
package store

import (
	"context"
	"slices"
	"sync/atomic"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
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

const batchSize = 500 // rows of one statement, limited by its number of parameters

// Newest returns the newest event.
func (s *Store) Newest(ctx context.Context) (newest highwater.Mark, err error) {
	var rows []eventRow
	if err := s.db.WithContext(ctx).Select("sequence", "id").Order("sequence DESC").Limit(1).Find(&rows).Error; err != nil {
		return newest, database.Outage(err)
	}
	if len(rows) > 0 {
		newest.Change = api.Change{Sequence: rows[0].Sequence, ID: rows[0].ID}
	}
	return newest, nil
}

// Has reports whether the database has an event.
func (s *Store) Has(ctx context.Context, l highwater.Loss) (bool, error) {
	var n int64
	db := s.db.WithContext(ctx).Model(&eventRow{}).Where("sequence = ?", l.Number)
	if l.ID != "" {
		db = db.Where("id = ?", l.ID)
	}
	err := db.Count(&n).Error
	return n > 0, database.Outage(err)
}

// Unpublished returns the ids of the listings in the copy that are not public, in order.
func (s *Store) Unpublished(ctx context.Context) ([]string, error) {
	ids := []string{}
	err := s.db.WithContext(ctx).Raw("SELECT id FROM listings WHERE NOT published ORDER BY id").Scan(&ids).Error
	return ids, database.Outage(err)
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
