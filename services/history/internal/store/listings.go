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

// Save implements feed.Store. It ignores states older than the stored ones, so any part of the feed
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
		moved, err := from.Move(tx, to)
		if err != nil || !moved || len(rows) == 0 {
			return err
		}
		return database.InsertIf(tx, rows, "id", "excluded.sequence > listings.sequence")
	}))
}

// Cursor returns the position of the copy.
func (s Listings) Cursor(ctx context.Context) (feed.Cursor, error) {
	c, err := feed.ReadCursor(s.db.WithContext(ctx))
	return c, database.Outage(err)
}

// StartOver implements feed.Store. The listings stay until the catalog's replace them: their
// sequence is 0, which no change has.
func (s Listings) StartOver(ctx context.Context, from, to feed.Cursor) error {
	return s.move(ctx, from, to, "UPDATE listings SET sequence = 0")
}

// Prune implements feed.Store. It deletes the listings that the catalog no longer has.
func (s Listings) Prune(ctx context.Context, from, to feed.Cursor) error {
	return s.move(ctx, from, to, "DELETE FROM listings WHERE sequence = 0")
}

// move moves the cursor and executes a statement, unless the cursor is no longer from.
func (s Listings) move(ctx context.Context, from, to feed.Cursor, statement string) error {
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		moved, err := from.Move(tx, to)
		if err != nil || !moved {
			return err
		}
		return tx.Exec(statement).Error
	}))
}
