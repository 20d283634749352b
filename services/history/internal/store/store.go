// Package store stores the history in a database: append-only events, a summary for each listing, checkpoints, the state of link
// checks, and a copy of the catalog's listing states.
package store

import (
	"context"
	"slices"
	"sync/atomic"

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

const batchSize = 500 // rows of one statement, limited by its number of parameters

// Seen returns what the history has seen of the catalog.
func (s *Store) Seen(ctx context.Context) (seen api.Seen, err error) {
	seen.Mark, _, err = database.SeenMark(s.db.WithContext(ctx), feedName)
	return seen, err
}

// Newest returns the newest event and the newest checkpoint.
func (s *Store) Newest(ctx context.Context) (newest api.Seen, err error) {
	var rows []eventRow
	if err := s.db.WithContext(ctx).Select("sequence", "id").Order("sequence DESC").Limit(1).Find(&rows).Error; err != nil {
		return newest, database.Outage(err)
	}
	if len(rows) > 0 {
		newest.Mark = api.FeedMark{Sequence: rows[0].Sequence, ID: rows[0].ID}
	}
	c, _, err := s.oneCheckpoint(ctx, "true")
	newest.Checkpoint = api.SignedCheckpoint{Number: c.Number, Note: c.Note}
	return newest, err
}

// SeeChange stores a change of authquota's database, unless a newer one is stored. It returns the newest.
func (s *Store) SeeChange(ctx context.Context, change api.FeedMark) (newest api.FeedMark, err error) {
	db := s.db.WithContext(ctx)
	if err := database.SaveMark(db, authquotaChanges, change); err != nil {
		return newest, database.Outage(err)
	}
	newest, _, err = database.SeenMark(db, authquotaChanges)
	return newest, err
}

// authquotaChanges is the name of authquota's changes in feed_copies.
const authquotaChanges = "authquota"

// Has reports whether the database has an event or a checkpoint that the catalog has seen.
func (s *Store) Has(ctx context.Context, seen database.SetBack) (bool, error) {
	if seen.Kind == database.Checkpoint {
		c, found, err := s.CheckpointNumber(ctx, seen.Number)
		return found && c.Note == seen.Note, err
	}
	var n int64
	db := s.db.WithContext(ctx).Model(&eventRow{}).Where("sequence = ?", seen.Number)
	if seen.ID != "" {
		db = db.Where("id = ?", seen.ID)
	}
	err := db.Count(&n).Error
	return n > 0, database.Outage(err)
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
