// Package store keeps the history: events that are only ever added, the summary of each listing's events, and a copy of what
// the catalog says of its listings.
package store

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// Store is the history in one database. Its errors are problem.Unavailable where the database is out of reach.
type Store struct {
	db        *database.DB
	appending chan struct{} // holds one element while an append of this process runs
	appended  prometheus.Counter
}

// New makes a store on a database that has the schema of package migrations; its metrics go to registry.
func New(db *database.DB, registry prometheus.Registerer) *Store {
	appended := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "history_events_appended_total", Help: "Events recorded by this process, duplicates left out.",
	})
	registry.MustRegister(appended)
	return &Store{db, make(chan struct{}, 1), appended}
}

type listingRow struct {
	ID             string `gorm:"primaryKey"`
	Sequence       int64
	Published      bool
	ApplicationURL string
}

func (listingRow) TableName() string { return "listings" }

// batch is how many rows go into one statement: few enough for the parameters that a statement may have.
const batch = 500

// SaveListings takes over what the catalog says, in one transaction. A state that is older than the one kept is passed over, so
// replicas may pull the same page at once.
func (s *Store) SaveListings(ctx context.Context, states []api.ListingState) error {
	if len(states) == 0 {
		return nil
	}
	rows := make([]listingRow, len(states))
	for i, l := range states {
		rows[i] = listingRow{ID: l.ID, Sequence: l.Sequence, Published: l.Published, ApplicationURL: l.ApplicationURL}
	}
	slices.SortFunc(rows, func(a, b listingRow) int { return strings.Compare(a.ID, b.ID) }) // replicas lock in one order
	newer := clause.OnConflict{
		Columns:   []clause.Column{{Name: "id"}},
		DoUpdates: clause.AssignmentColumns([]string{"sequence", "published", "application_url"}),
		Where:     clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "excluded.sequence > listings.sequence"}}},
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return tx.Clauses(newer).CreateInBatches(rows, batch).Error
	}))
}

// ListingsCursor is how far the copy of the catalog's listings has come. Pages are saved whole and in order, so there is no gap
// below the greatest sequence, and no second record of the position that could disagree.
func (s *Store) ListingsCursor(ctx context.Context) (int64, error) {
	var cursor int64
	err := s.db.WithContext(ctx).Raw("SELECT coalesce(max(sequence), 0) FROM listings").Scan(&cursor).Error
	return cursor, database.Outage(err)
}

// UnknownListings are those of slugs that name no listing of the copy, published or not.
func (s *Store) UnknownListings(ctx context.Context, slugs []string) (map[string]bool, error) {
	unknown := make(map[string]bool, len(slugs))
	for _, slug := range slugs {
		unknown[slug] = true
	}
	for some := range slices.Chunk(slugs, batch) {
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
