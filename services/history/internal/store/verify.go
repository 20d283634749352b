package store

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

// Snapshot calls check with a consistent snapshot of the history. It does not block appends.
func (s *Store) Snapshot(ctx context.Context, check func(*Store) error) error {
	options := &sql.TxOptions{ReadOnly: true} // on SQLite, avoids the lock that appends need
	if s.db.Dialect == database.Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		snapshot := *s.db
		snapshot.DB = tx
		return check(New(&snapshot))
	}, options))
}

// LastSequence returns the last assigned sequence of an event.
func (s *Store) LastSequence(ctx context.Context) (last int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT value FROM change_sequence WHERE id = 1").Scan(&last).Error
	return last, database.Outage(err)
}

// Listings returns the number of listings with events, and those without a stored summary.
func (s *Store) Listings(ctx context.Context) (n int, missing []string, err error) {
	db := s.db.WithContext(ctx)
	if err := db.Raw("SELECT count(DISTINCT slug) FROM verification_events").Scan(&n).Error; err != nil {
		return 0, nil, database.Outage(err)
	}
	err = db.Raw(`SELECT DISTINCT slug FROM verification_events e
		WHERE NOT EXISTS (SELECT 1 FROM summaries s WHERE s.slug = e.slug) ORDER BY slug`).Scan(&missing).Error
	return n, missing, database.Outage(err)
}

// StoredSummary is the stored summary of a listing.
type StoredSummary struct {
	summaryRow

	Records []event.Record // the events of the listing, oldest first, without actors and hashes
}

// StoredSummaries returns summaries with a slug above after, ordered by slug, with the events of
// their listings. It returns as many as have up to maxEvents events, and at least one unless there
// is none.
func (s *Store) StoredSummaries(ctx context.Context, after string, maxEvents int) ([]StoredSummary, error) {
	db := s.db.WithContext(ctx)
	var rows []summaryRow
	if err := db.Where("slug > ?", after).Order("slug").Limit(batchSize).Find(&rows).Error; err != nil {
		return nil, database.Outage(err)
	}
	var slugs []string
	events := 0
	for _, r := range rows {
		if events += max(r.Events, 0); events > maxEvents && len(slugs) > 0 {
			break
		}
		slugs = append(slugs, r.Slug)
	}
	histories, err := load(db, eventColumns, min(events, maxEvents), slugs)
	out := make([]StoredSummary, len(slugs))
	for i, r := range rows[:len(slugs)] {
		out[i] = StoredSummary{r, histories[r.Slug]}
	}
	return out, err
}
