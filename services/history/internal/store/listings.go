package store

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
)

// Listings is the copy of the catalog's listing states. Its methods return problem.Unavailable
// during an outage of the database.
type Listings struct{ db *database.DB }

// NewListings returns the copy in db.
func NewListings(db *database.DB) Listings { return Listings{db} }

type listingRow struct {
	ID             string `gorm:"primaryKey"`
	Sequence       int64
	Published      bool
	ApplicationURL string
	Pages          string // JSON array of URLs
}

func (listingRow) TableName() string { return "listings" }

// Save saves listing states of the catalog and moves the cursor, in one transaction, unless the
// cursor is no longer from. It ignores states older than the stored ones, so any part of the feed
// can be read again.
func (s Listings) Save(ctx context.Context, from feed.Cursor, states []api.ListingState, to feed.Cursor) error {
	rows := make([]listingRow, len(states))
	for i, l := range states {
		pages, err := json.Marshal(append([]string{}, l.Pages...))
		if err != nil {
			return err
		}
		rows[i] = listingRow{ID: l.ID, Sequence: l.Sequence, Published: l.Published, ApplicationURL: l.ApplicationURL,
			Pages: string(pages)}
	}
	// the same lock order in every replica
	slices.SortFunc(rows, func(a, b listingRow) int { return strings.Compare(a.ID, b.ID) })
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		moved, err := moveCursor(tx, from, to)
		if err != nil || !moved || len(rows) == 0 {
			return err
		}
		return database.InsertIf(tx, rows, "id", "excluded.sequence > listings.sequence")
	}))
}

// Cursor returns the position of the copy.
func (s Listings) Cursor(ctx context.Context) (c feed.Cursor, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT position, mark, restarted FROM feed_cursor WHERE id = 1").Scan(&c).Error
	return c, database.Outage(err)
}

// StartOver moves the cursor to the beginning, unless it is no longer from. The listings stay until
// the catalog's replace them: their sequence is 0, which no change has.
func (s Listings) StartOver(ctx context.Context, from feed.Cursor) error {
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		moved, err := moveCursor(tx, from, feed.Cursor{Restarted: true})
		if err != nil || !moved {
			return err
		}
		return tx.Exec("UPDATE listings SET sequence = 0").Error
	}))
}

// moveCursor reports whether the cursor was from.
func moveCursor(tx *gorm.DB, from, to feed.Cursor) (moved bool, err error) {
	done := tx.Exec("UPDATE feed_cursor SET position = ?, mark = ?, restarted = ? WHERE id = 1 AND position = ? AND "+
		"mark = ? AND restarted = ?",
		to.Position, to.Mark, to.Restarted, from.Position, from.Mark, from.Restarted)
	return done.RowsAffected > 0, done.Error
}

// Prune deletes the listings that the catalog no longer has. Call it when the copy is complete.
func (s Listings) Prune(ctx context.Context) error {
	cursor, err := s.Cursor(ctx)
	if err != nil || !cursor.Restarted {
		return err
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("DELETE FROM listings WHERE sequence = 0").Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE feed_cursor SET restarted = false WHERE id = 1").Error
	}))
}
