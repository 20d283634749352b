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
	last := states[len(states)-1]
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Clauses(newer).CreateInBatches(rows, batchSize).Error; err != nil {
			return err
		}
		return database.SaveMark(tx, feedName, api.FeedMark{Sequence: last.Sequence, ID: last.Change})
	}))
}

// feedName is the name of the catalog's feed in feed_copies.
const feedName = "listings"

// ListingsCursor returns the sequence up to which listing states are copied, and the mark of the newest change seen. Pages are saved
// completely and in order, so the cursor is the greatest stored sequence; a separate record of the position could disagree.
func (s *Store) ListingsCursor(ctx context.Context) (cursor int64, seen api.FeedMark, err error) {
	db := s.db.WithContext(ctx)
	if err := db.Raw("SELECT coalesce(max(sequence), 0) FROM listings").Scan(&cursor).Error; err != nil {
		return 0, seen, database.Outage(err)
	}
	seen, _, err = database.SeenMark(db, feedName)
	return cursor, seen, err
}

// StartListingsOver sets the cursor to 0, unless the newest change seen is another one than seen. The states stay until the catalog's
// replace them: their sequence is 0, which no change has.
func (s *Store) StartListingsOver(ctx context.Context, seen api.FeedMark) error {
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		started, err := database.StartCopyOver(tx, feedName, seen)
		if err != nil || !started {
			return err
		}
		return tx.Exec("UPDATE listings SET sequence = 0").Error
	}))
}

// PruneListings deletes the listings that the catalog no longer has. Call it when the copy is complete.
func (s *Store) PruneListings(ctx context.Context) error {
	if _, startedOver, err := database.SeenMark(s.db.WithContext(ctx), feedName); err != nil || !startedOver {
		return err
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("DELETE FROM listings WHERE sequence = 0").Error; err != nil {
			return err
		}
		return database.EndCopyOver(tx, feedName)
	}))
}

// Seen returns what the history has seen of the catalog.
func (s *Store) Seen(ctx context.Context) (seen api.Seen, err error) {
	seen.Mark, _, err = database.SeenMark(s.db.WithContext(ctx), feedName)
	return seen, err
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
