package store

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/peer"
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
	Pages          string // JSON array of URLs
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
		pages, err := json.Marshal(append([]string{}, l.Pages...))
		if err != nil {
			return err
		}
		rows[i] = listingRow{ID: l.ID, Sequence: l.Sequence, Published: l.Published, ApplicationURL: l.ApplicationURL, Pages: string(pages)}
	}
	slices.SortFunc(rows, func(a, b listingRow) int { return strings.Compare(a.ID, b.ID) }) // the same lock order in every replica
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return database.InsertIf(tx, rows, "id", "excluded.sequence > listings.sequence")
	}))
}

// Cursor returns the sequence up to which listing states are copied. Pages are saved completely and in order, so the cursor is the greatest
// stored sequence; a separate record of the position could disagree.
func (s Listings) Cursor(ctx context.Context) (cursor int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT coalesce(max(sequence), 0) FROM listings").Scan(&cursor).Error
	return cursor, database.Outage(err)
}

// CatalogMarks keeps the high-water mark of the catalog. If an operator has accepted a loss of the catalog, the copy of its listing states
// starts over. They stay until the catalog's replace them: their sequence is 0, which no change has.
func (s Listings) CatalogMarks(log *slog.Logger) highwater.Row {
	return highwater.Row{Store: peer.Catalog, DB: s.db, Log: log, StartOver: func(ctx context.Context, replace func(*gorm.DB) (bool, error)) error {
		return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			replaced, err := replace(tx)
			if err != nil || !replaced {
				return err
			}
			return tx.Exec("UPDATE listings SET sequence = 0").Error
		}))
	}}
}

// Prune deletes the listings that the catalog no longer has. Call it when the copy is complete.
func (s Listings) Prune(ctx context.Context) error {
	if startedOver, err := highwater.StartedOver(s.db.WithContext(ctx), peer.Catalog); err != nil || !startedOver {
		return err
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("DELETE FROM listings WHERE sequence = 0").Error; err != nil {
			return err
		}
		return highwater.EndCopyOver(tx, peer.Catalog)
	}))
}
