package store

import (
	"context"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// Listings is the copy of the catalog's listing states. Its methods return problem.Unavailable during an outage of the database.
type Listings struct{ db *database.DB }

// NewListings returns the copy in db.
func NewListings(db *database.DB) Listings { return Listings{db} }

type listingRow struct {
	ID             string `gorm:"primaryKey"`
	Sequence       int64
	Published      bool
	ApplicationURL string
}

func (listingRow) TableName() string { return "listings" }

// Save saves listing states of the catalog in one transaction. It ignores states older than the stored ones, so replicas
// may pull the same page concurrently.
func (s Listings) Save(ctx context.Context, states []api.ListingState) error {
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

// Cursor returns the sequence up to which listing states are copied, and the mark of the newest change seen. Pages are saved
// completely and in order, so the cursor is the greatest stored sequence; a separate record of the position could disagree.
func (s Listings) Cursor(ctx context.Context) (cursor int64, seen api.FeedMark, err error) {
	db := s.db.WithContext(ctx)
	if err := db.Raw("SELECT coalesce(max(sequence), 0) FROM listings").Scan(&cursor).Error; err != nil {
		return 0, seen, database.Outage(err)
	}
	seen, _, err = database.SeenMark(db, feedName)
	return cursor, seen, err
}

// StartOver sets the cursor to 0, unless the newest change seen is another one than seen. The states stay until the catalog's
// replace them: their sequence is 0, which no change has.
func (s Listings) StartOver(ctx context.Context, seen api.FeedMark) error {
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		started, err := database.StartCopyOver(tx, feedName, seen)
		if err != nil || !started {
			return err
		}
		return tx.Exec("UPDATE listings SET sequence = 0").Error
	}))
}

// Prune deletes the listings that the catalog no longer has. Call it when the copy is complete.
func (s Listings) Prune(ctx context.Context) error {
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
