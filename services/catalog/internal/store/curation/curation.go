// Package curation stores the work of curators on listings, and finds the listings that need work.
// Consumers never see any of it.
//
// A lease says that an operator works on a listing. It is advisory: what protects a review is its
// precondition. A skip hides a listing from the queue for a while. Drafts and opened sources belong
// to one operator each (curation.go). Queue, Due and Freshness read only listing_index, which
// package store derives in each transaction that changes a listing or its summary (queue.go,
// freshness.go).
// List and Candidates search all listings (list.go).
package curation

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/review"
	"opportunity.internal/services/catalog/internal/store"
)

// Store is the part of the catalog's database for curation. Methods return a *problem.Error with
// code not_found for an unknown listing, and service_unavailable if the database is unreachable.
type Store struct {
	db  *database.DB
	now func() time.Time
}

// New returns a store on an open database. now is the clock of leases, drafts and skips.
func New(db *database.DB, now func() time.Time) *Store { return &Store{db, now} }

type leaseRow struct {
	ListingID string `gorm:"primaryKey"`
	Holder    string
	TakenAt   int64
	ExpiresAt int64
}

func (leaseRow) TableName() string { return "leases" }

// lease returns nil if there is none.
func (r *leaseRow) lease() *api.Lease {
	if r == nil || r.Holder == "" {
		return nil
	}
	return &api.Lease{Holder: r.Holder, TakenAt: database.FromMicros(r.TakenAt),
		ExpiresAt: database.FromMicros(r.ExpiresAt)}
}

type draftRow struct {
	ListingID string `gorm:"primaryKey"`
	Operator  string `gorm:"primaryKey"`
	Content   string
	SavedAt   int64
}

func (draftRow) TableName() string { return "drafts" }

func (r *draftRow) draft() *api.Draft {
	if r == nil {
		return nil
	}
	return &api.Draft{Content: json.RawMessage(r.Content), SavedAt: database.FromMicros(r.SavedAt)}
}

type skipRow struct {
	ListingID string `gorm:"primaryKey"`
	Actor     string
	Reason    string
	SkippedAt int64
	EndsAt    int64
}

func (skipRow) TableName() string { return "skips" }

// skip returns nil if there is none.
func (r *skipRow) skip() *api.Skip {
	if r == nil || r.Actor == "" {
		return nil
	}
	return &api.Skip{Actor: r.Actor, Reason: r.Reason, SkippedAt: database.FromMicros(r.SkippedAt),
		Until: database.FromMicros(r.EndsAt)}
}

type openingRow struct {
	ListingID string `gorm:"primaryKey"`
	Operator  string `gorm:"primaryKey"`
	EventID   string
	SourceURL string
	OpenedAt  int64
}

func (openingRow) TableName() string { return "openings" }

// put stores a row for an existing listing, in place of one with the same key.
func (s *Store) put(ctx context.Context, id string, row any) error {
	tx := s.db.WithContext(ctx)
	if err := store.Exists(tx, id); err != nil {
		return err
	}
	return database.Outage(tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(row).Error)
}

func first[Row any](tx *gorm.DB, condition string, values ...any) (*Row, error) {
	var rows []Row
	if err := tx.Where(condition, values...).Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return nil, database.Outage(err)
	}
	return &rows[0], nil
}

// TakeLease takes or renews the lease of a listing for api.LeaseTime. If another operator holds it
// and takeOver is not set, it returns that lease and false.
func (s *Store) TakeLease(ctx context.Context, id, holder string, takeOver bool) (api.Lease, bool, error) {
	tx, now := s.db.WithContext(ctx), database.Micros(s.now())
	if err := store.Exists(tx, id); err != nil {
		return api.Lease{}, false, err
	}
	// One statement, so of two operators at the same time only one gets the lease.
	const take = `INSERT INTO leases (listing_id, holder, taken_at, expires_at) VALUES (@id, @holder, @now, @end)
		ON CONFLICT (listing_id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
			taken_at = CASE WHEN leases.holder = excluded.holder AND leases.expires_at > @now
				THEN leases.taken_at ELSE excluded.taken_at END`
	const unlessHeld = ` WHERE leases.holder = excluded.holder OR leases.expires_at <= @now`
	statement := take
	if !takeOver {
		statement += unlessHeld
	}
	err := tx.Exec(statement, map[string]any{"id": id, "holder": holder, "now": now,
		"end": now + api.LeaseTime.Microseconds()}).Error
	if err != nil {
		return api.Lease{}, false, database.Outage(err)
	}
	row, err := first[leaseRow](tx, "listing_id = ?", id)
	switch {
	case err != nil:
		return api.Lease{}, false, err
	case row == nil: // the holder ended it since
		return s.TakeLease(ctx, id, holder, takeOver)
	}
	return *row.lease(), row.Holder == holder, nil
}

// EndLease ends the lease of holder. It does nothing if holder has none.
func (s *Store) EndLease(ctx context.Context, id, holder string) error {
	return database.Outage(endLease(s.db.WithContext(ctx), id, holder))
}

func endLease(tx *gorm.DB, id, holder string) error {
	return tx.Where("holder = ?", holder).Delete(&leaseRow{ListingID: id}).Error
}

// SaveDraft saves the draft of an operator for a listing, in place of an earlier one. content is
// JSON.
func (s *Store) SaveDraft(ctx context.Context, id, operator string, content json.RawMessage) (*api.Draft, error) {
	row := &draftRow{id, operator, string(content), database.Micros(s.now())}
	return row.draft(), s.put(ctx, id, row)
}

// DeleteDraft deletes the draft of an operator. It does nothing if there is none.
func (s *Store) DeleteDraft(ctx context.Context, id, operator string) error {
	return database.Outage(s.db.WithContext(ctx).Delete(&draftRow{ListingID: id, Operator: operator}).Error)
}

// Skip hides a listing from the queue, in place of an earlier skip.
func (s *Store) Skip(ctx context.Context, id, actor string, want api.SkipRequest) (*api.Skip, error) {
	row := &skipRow{id, actor, want.Reason, database.Micros(s.now()), database.Micros(want.Until.Time)}
	return row.skip(), s.put(ctx, id, row)
}

// EndSkip returns a skipped listing to the queue. It does nothing if the listing is not skipped.
func (s *Store) EndSkip(ctx context.Context, id, _ string) error {
	return database.Outage(s.db.WithContext(ctx).Delete(&skipRow{ListingID: id}).Error)
}

// Finish ends an operator's work on a listing after a review: the operator's lease and draft, and
// the skip.
func (s *Store) Finish(ctx context.Context, id, operator string) error {
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return errors.Join(endLease(tx, id, operator), tx.Delete(&draftRow{ListingID: id, Operator: operator}).Error,
			tx.Delete(&skipRow{ListingID: id}).Error)
	}))
}

// AddWork adds the work of curators on the listing with the id to its review sheet: active lease
// and skip, and the operator's draft.
func (s *Store) AddWork(ctx context.Context, id, operator string, sheet *api.ReviewSheet) error {
	tx, now := s.db.WithContext(ctx), database.Micros(s.now())
	lease, errLease := first[leaseRow](tx, "listing_id = ? AND expires_at > ?", id, now)
	draft, errDraft := first[draftRow](tx, "listing_id = ? AND operator = ?", id, operator)
	skip, errSkip := first[skipRow](tx, "listing_id = ? AND ends_at > ?", id, now)
	sheet.Lease, sheet.Draft, sheet.Skip = lease.lease(), draft.draft(), skip.skip()
	return errors.Join(errLease, errDraft, errSkip)
}

// Exists returns problem.NotFound if there is no listing with the id.
func (s *Store) Exists(ctx context.Context, id string) error {
	return store.Exists(s.db.WithContext(ctx), id)
}

// Open records that an operator opened a source from a review sheet.
func (s *Store) Open(ctx context.Context, id, operator string, o api.OpeningRequest) error {
	return s.put(ctx, id, &openingRow{id, operator, o.LastEventID, o.SourceURL, database.Micros(s.now())})
}

// NeedsOpening reports whether an unchanged review by the operator, on the sheet with the newest
// event eventID, is accepted only after an opening, and returns the opened source, empty if there
// is none.
func (s *Store) NeedsOpening(ctx context.Context, id, operator, eventID string) (needs bool, opened string, err error) {
	tx := s.db.WithContext(ctx)
	var secret string // of this database
	if err := tx.Raw("SELECT id FROM generations ORDER BY began_at DESC, id LIMIT 1").Scan(&secret).Error; err != nil {
		return false, "", database.Outage(err)
	}
	if !review.NeedsOpening(secret, id, operator, eventID) {
		return false, "", nil
	}
	opening, err := first[openingRow](tx, "listing_id = ? AND operator = ? AND event_id = ?", id, operator, eventID)
	if opening != nil {
		opened = opening.SourceURL
	}
	return true, opened, err
}
