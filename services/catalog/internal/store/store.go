// Package store is the catalog's database. It holds listings, the curators' notes, a log of
// changes, and a copy of history's summaries.
//
// Each transaction that changes data first locks the change sequence. Writers are therefore
// serialized, and sequence numbers become visible in order. A listing has the sequence of its
// latest change, or of the latest change of its summary. The snapshot and the feed of listings read
// by that sequence. It also has that of the latest change that consumers can see, by which they
// read changes.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/snapshot"
)

// Migrations has numbered SQL files, as database.Migrate needs them. Never edit a released file:
// add one with the next number.
//
//go:embed migrations/postgres/*.sql migrations/sqlite/*.sql
var Migrations embed.FS

// Store is the catalog's database. Methods return a *problem.Error with code service_unavailable if
// the database is unreachable.
type Store struct {
	Changed chan struct{} // receives soon after a change by this process

	db  *database.DB
	now func() time.Time
}

// New returns a store on an open database. now is the clock for change times.
func New(db *database.DB, now func() time.Time) *Store {
	return &Store{Changed: make(chan struct{}, 1), db: db, now: now}
}

// batch is the maximum number of rows in one statement.
const batch = 500

type listingRow struct {
	ID          string `gorm:"primaryKey"`
	Visibility  listingfile.Visibility
	Document    string // JSON of the listing, without publishedAt, which has a column
	PublishedAt *int64
	ChangedAt   *int64
	PastDates   string // JSON of listing.Entry.PastDates, empty if there are none
	Sequence    int64
	// PublicSequence is that of the latest change that consumers can see, 0 if there was none.
	PublicSequence int64
	CreatedAt      int64 `gorm:"autoCreateTime:false"`
	UpdatedAt      int64 `gorm:"autoUpdateTime:false"`
}

func (listingRow) TableName() string { return "listings" }

type curationRow struct {
	ListingID string `gorm:"primaryKey"`
	api.Curation
}

func (curationRow) TableName() string { return "curations" }

type changeRow struct {
	ListingID string
	At        int64
	Actor     string
	What      string
	Fields    string // names of the changed fields, comma-separated
	Material  bool
	Reason    string // for withdrawing it
	Sequence  int64  // of the listing after the change

	Differences string // JSON of []api.FieldChange: the material ones; may be empty
}

func (changeRow) TableName() string { return "listing_changes" }

// Values of changeRow.What.
const (
	imported  = "imported"
	updated   = "updated"
	published = "published"
	withdrawn = "withdrawn"
	Proposed  = "withdrawal-proposed"
	Declined  = "withdrawal-declined"
)

func newListingRow(e listing.Entry) (listingRow, error) {
	row := listingRow{
		ID: e.ID, Visibility: e.Visibility, PublishedAt: toMicros(e.PublishedAt), ChangedAt: toMicros(e.ChangedAt),
	}
	if len(e.PastDates) > 0 {
		dates, err := api.Encode(e.PastDates)
		if err != nil {
			return row, err
		}
		row.PastDates = string(dates)
	}
	e.PublishedAt = nil
	document, err := api.Encode(e.Listing)
	row.Document = string(document)
	return row, err
}

func (r listingRow) entry(c *curationRow) (listing.Entry, error) {
	e := listing.Entry{Visibility: r.Visibility, ChangedAt: FromMicros(r.ChangedAt)}
	if err := listing.Documents.UnmarshalFromString(r.Document, &e.Listing); err != nil {
		return e, fmt.Errorf("decoding listing %s: %w", r.ID, err)
	}
	if r.PastDates != "" {
		if err := json.Unmarshal([]byte(r.PastDates), &e.PastDates); err != nil {
			return e, fmt.Errorf("decoding the past dates of listing %s: %w", r.ID, err)
		}
	}
	e.PublishedAt = FromMicros(r.PublishedAt)
	if c != nil {
		e.Curation = &c.Curation
	}
	return e, nil
}

func toMicros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := database.Micros(*t)
	return &us
}

// FromMicros is like database.FromMicros; nil stays nil.
func FromMicros(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := database.FromMicros(*us)
	return &t
}

// Exists returns problem.NotFound if there is no listing with the id.
func Exists(tx *gorm.DB, id string) error {
	var n int64
	if api.ValidSlug(id) { // Postgres returns an error for some strings
		if err := tx.Table("listings").Where("id = ?", id).Count(&n).Error; err != nil {
			return database.Outage(err)
		}
	}
	if n == 0 {
		return problem.NoSuch("listing")
	}
	return nil
}

// findListing returns the listing with the id, or problem.NotFound.
func findListing(tx *gorm.DB, id string) (l stored, err error) {
	if !api.ValidSlug(id) { // Postgres returns an error for some strings
		return l, problem.NoSuch("listing")
	}
	known, err := findListings(tx, []string{id})
	if err != nil {
		return l, database.Outage(err)
	}
	if l = known[id]; l.row == nil {
		return l, problem.NoSuch("listing")
	}
	return l, nil
}

type stored struct {
	row   *listingRow
	entry listing.Entry
}

// decoded returns the listings of rows, with their curations, in the same order.
func decoded(tx *gorm.DB, rows []*listingRow) ([]stored, error) {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	notes, err := rowsByID(tx, "listing_id", ids, func(r *curationRow) string { return r.ListingID })
	all := make([]stored, len(rows))
	for i, row := range rows {
		if err == nil {
			all[i].row = row
			all[i].entry, err = row.entry(notes[row.ID])
		}
	}
	return all, err
}

func findListings(tx *gorm.DB, ids []string) (map[string]stored, error) {
	var rows []*listingRow
	if err := tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}
	all, err := decoded(tx, rows)
	known := make(map[string]stored, len(all))
	for _, l := range all {
		known[l.row.ID] = l
	}
	return known, err
}

// rowsByID returns the rows of a table for which a column has one of the ids, by that id.
func rowsByID[T any](tx *gorm.DB, column string, ids []string, idOf func(T) string) (map[string]T, error) {
	var rows []T
	if len(ids) > 0 {
		if err := tx.Where(column+" IN ?", ids).Find(&rows).Error; err != nil {
			return nil, err
		}
	}
	all := make(map[string]T, len(rows))
	for _, row := range rows {
		all[idOf(row)] = row
	}
	return all, nil
}

// Export yields all listings, including private and withdrawn ones, ordered by id. It stops after
// an error.
func (s *Store) Export(ctx context.Context) iter.Seq2[listing.Entry, error] {
	return func(yield func(listing.Entry, error) bool) {
		for last := ""; ; {
			part, err := s.exportBatch(ctx, last)
			if err != nil {
				yield(listing.Entry{}, database.Outage(err))
				return
			}
			for _, l := range part {
				if last = l.row.ID; !yield(l.entry, nil) {
					return
				}
			}
			if len(part) < batch {
				return
			}
		}
	}
}

func (s *Store) exportBatch(ctx context.Context, after string) ([]stored, error) {
	var rows []*listingRow
	tx := s.db.WithContext(ctx)
	if err := tx.Where("id > ?", after).Order("id").Limit(batch).Find(&rows).Error; err != nil {
		return nil, err
	}
	return decoded(tx, rows)
}

// errNoChange rolls back a transaction that must not change anything, so that the sequence stays
// the same. change does not return it.
var errNoChange = errors.New("nothing to change")

// changeTimeout is the time limit of a change, including the wait for the lock. It keeps a hanging
// change from blocking all later ones.
const changeTimeout = time.Minute

// change runs f in a transaction that holds the lock on the change sequence, within a time limit. f
// increments *next for each sequence number it assigns.
func (s *Store) change(ctx context.Context, limit time.Duration, f func(tx *gorm.DB, next *int64) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		before, err := database.NextSequence(tx)
		if err != nil {
			return err
		}
		if err := database.PreferIndexes(tx); err != nil {
			return err
		}
		before-- // NextSequence took a number that f assigns again
		next := before
		if err := f(tx, &next); err != nil {
			return err
		}
		if next == before {
			return errNoChange
		}
		row := transactionRow{Sequence: next, ID: rand.Text(), At: database.Micros(s.now())}
		if err := tx.Raw("SELECT EXISTS (SELECT 1 FROM listings WHERE public_sequence > ?)",
			before).Scan(&row.Public).Error; err != nil {
			return err
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE change_sequence SET value = ? WHERE id = 1", next).Error
	})
	switch {
	case errors.Is(err, errNoChange):
		return nil
	case err == nil:
		select {
		case s.Changed <- struct{}{}:
		default: // the reader has yet to see an earlier one
		}
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // some errors, such as that of a commit, do not wrap it
		return problem.Unavailable(err)
	}
	return database.Outage(err)
}

// transactionRow identifies a transaction that changed listings. Sequences between two rows belong
// to the later one.
type transactionRow struct {
	Sequence int64 `gorm:"primaryKey;autoIncrement:false"`
	ID       string
	At       int64
	Public   bool // consumers can see it
}

func (transactionRow) TableName() string { return "changes" }

// PositionAt returns the position behind the change that has the sequence, or the zero value.
func (s *Store) PositionAt(ctx context.Context, sequence int64) (listing.Position, error) {
	return position(s.db.WithContext(ctx).Where("sequence >= ?", sequence).Order("sequence"))
}

// Sequence implements snapshot.Source.
func (s *Store) Sequence(ctx context.Context) (int64, error) {
	var value int64
	err := s.db.WithContext(ctx).Raw("SELECT value FROM change_sequence WHERE id = 1").Scan(&value).Error
	return value, database.Outage(err)
}

// Changes implements snapshot.Source. It uses one statement, so that all rows are from the same
// database state.
func (s *Store) Changes(ctx context.Context, after int64, each func(snapshot.Row) error) error {
	db := s.db.WithContext(ctx)
	if s.db.Dialect != database.Postgres {
		return eachChange(db, after, each)
	}
	return database.Outage(db.Transaction(func(tx *gorm.DB) error {
		if err := database.PreferIndexes(tx); err != nil { // otherwise it would read all listings for a few changes
			return err
		}
		return eachChange(tx, after, each)
	}, &sql.TxOptions{ReadOnly: true}))
}

// eachChange reads for Changes. It looks up summaries row by row: for a join, Postgres would read
// all of them even if few listings changed.
func eachChange(db *gorm.DB, after int64, each func(snapshot.Row) error) error {
	rows, err := db.Raw(`SELECT l.sequence, l.public_sequence, l.id, l.published_at, l.changed_at,
			CASE WHEN l.visibility = 'published' THEN l.document END,
			CASE WHEN l.visibility = 'published' THEN (SELECT s.document FROM summaries s WHERE s.listing_id = l.id) END
		FROM listings l WHERE l.sequence > ?`, after).Rows()
	if err != nil {
		return database.Outage(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row snapshot.Row
		var publishedAt, changedAt *int64
		if err := rows.Scan(&row.Sequence, &row.PublicSequence, &row.ID, &publishedAt, &changedAt, &row.Document,
			&row.Summary); err != nil {
			return database.Outage(err)
		}
		row.PublishedAt, row.ChangedAt = FromMicros(publishedAt), FromMicros(changedAt)
		if err := each(row); err != nil {
			return err
		}
	}
	return database.Outage(rows.Err())
}
