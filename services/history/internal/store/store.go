// Package store stores the history in a database: append-only events, a summary for each listing,
// the log, the state of link checks, the texts of pages, and a copy of the catalog's listing
// states (Listings).
//
// Store.Append and Store.Review record events. One append runs at a time, of all replicas, and
// updates the summaries in the same transaction. So sequences have no gaps, and a reader that
// follows Store.Summaries misses nothing. Triggers reject every change of a recorded event, also
// by the owner of the tables.
package store

import (
	"context"
	"embed"
	"slices"
	"sync/atomic"

	"opportunity.internal/pkg/database"
)

// Migrations has numbered SQL files, as database.Migrate needs them. Never edit a released file:
// add one with the next number.
//
//go:embed migrations/postgres/*.sql migrations/sqlite/*.sql
var Migrations embed.FS

// Store is the history in one database. Its methods return problem.Unavailable during an outage of
// the database.
type Store struct {
	db        *database.DB
	appending chan struct{} // holds one element while an append of this process runs
	appended  atomic.Int64
}

// New returns a store on db, which must have the schema of Migrations.
func New(db *database.DB) *Store { return &Store{db: db, appending: make(chan struct{}, 1)} }

// Appended returns the number of events that this process has recorded, without duplicates.
func (s *Store) Appended() int64 { return s.appended.Load() }

const batchSize = 500 // rows of one statement, limited by its number of parameters

// Cover records that the catalog has seen the event with the sequence, which the database has.
func (s *Store) Cover(ctx context.Context, sequence int64) error {
	return database.Outage(s.db.WithContext(ctx).Exec(`UPDATE generations SET covered = ? WHERE covered < ?
		AND id = (SELECT id FROM generations ORDER BY began_at DESC LIMIT 1)`, sequence, sequence).Error)
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
