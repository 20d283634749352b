// Package desk stores the work of curators on listings: leases, drafts and skips. Consumers never
// see any of it.
package desk

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
)

// Store is the part of the catalog's database for the desk. Methods return a *problem.Error with
// code not_found for an unknown listing, and service_unavailable if the database is unreachable.
type Store struct {
	db  *database.DB
	now func() time.Time
}

// New returns a store on an open database. now is the clock of leases, drafts and skips.
func New(db *database.DB, now func() time.Time) *Store { return &Store{db, now} }

type leaseRow struct {
	ListingID string
	Holder    string
	TakenAt   int64
	ExpiresAt int64
}

func (r leaseRow) lease() api.Lease {
	return api.Lease{Holder: r.Holder, TakenAt: database.FromMicros(r.TakenAt),
		ExpiresAt: database.FromMicros(r.ExpiresAt)}
}

// TakeLease takes or renews the lease of a listing for api.LeaseTime. If another operator holds it
// and takeOver is not set, it returns that lease and false.
func (s *Store) TakeLease(ctx context.Context, id, holder string, takeOver bool) (api.Lease, bool, error) {
	tx, now := s.db.WithContext(ctx), database.Micros(s.now())
	if err := exists(tx, id); err != nil {
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
	taken := tx.Exec(statement, map[string]any{"id": id, "holder": holder, "now": now,
		"end": now + api.LeaseTime.Microseconds()})
	if taken.Error != nil {
		return api.Lease{}, false, database.Outage(taken.Error)
	}
	var row leaseRow
	if err := tx.Table("leases").Where("listing_id = ?", id).Take(&row).Error; err != nil {
		if errors.Is(err, gorm.ErrRecordNotFound) { // the holder ended it since
			return s.TakeLease(ctx, id, holder, takeOver)
		}
		return api.Lease{}, false, database.Outage(err)
	}
	return row.lease(), row.Holder == holder, nil
}

// EndLease ends the lease of holder. It does nothing if holder has none.
func (s *Store) EndLease(ctx context.Context, id, holder string) error {
	return database.Outage(endLease(s.db.WithContext(ctx), id, holder))
}

func endLease(tx *gorm.DB, id, holder string) error {
	return tx.Exec("DELETE FROM leases WHERE listing_id = ? AND holder = ?", id, holder).Error
}

// SaveDraft saves the draft of an operator for a listing, in place of an earlier one. content is
// JSON.
func (s *Store) SaveDraft(ctx context.Context, id, operator string, content json.RawMessage) (api.Draft, error) {
	tx, now := s.db.WithContext(ctx), s.now().UTC().Truncate(time.Microsecond)
	if err := exists(tx, id); err != nil {
		return api.Draft{}, err
	}
	err := tx.Exec(`INSERT INTO drafts (listing_id, operator, content, saved_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (listing_id, operator) DO UPDATE SET content = excluded.content, saved_at = excluded.saved_at`,
		id, operator, string(content), database.Micros(now)).Error
	return api.Draft{Content: content, SavedAt: now}, database.Outage(err)
}

// DeleteDraft deletes the draft of an operator. It does nothing if there is none.
func (s *Store) DeleteDraft(ctx context.Context, id, operator string) error {
	return database.Outage(deleteDraft(s.db.WithContext(ctx), id, operator))
}

func deleteDraft(tx *gorm.DB, id, operator string) error {
	return tx.Exec("DELETE FROM drafts WHERE listing_id = ? AND operator = ?", id, operator).Error
}

// Skip hides a listing from the queue, in place of an earlier skip.
func (s *Store) Skip(ctx context.Context, id, actor string, want api.SkipRequest) (api.Skip, error) {
	tx, now := s.db.WithContext(ctx), s.now().UTC().Truncate(time.Microsecond)
	if err := exists(tx, id); err != nil {
		return api.Skip{}, err
	}
	until := want.Until.UTC().Truncate(time.Microsecond)
	err := tx.Exec(`INSERT INTO skips (listing_id, actor, reason, skipped_at, ends_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (listing_id) DO UPDATE SET actor = excluded.actor, reason = excluded.reason,
			skipped_at = excluded.skipped_at, ends_at = excluded.ends_at`,
		id, actor, want.Reason, database.Micros(now), database.Micros(until)).Error
	return api.Skip{Actor: actor, Reason: want.Reason, SkippedAt: now, Until: until}, database.Outage(err)
}

// EndSkip returns a skipped listing to the queue. It does nothing if the listing is not skipped.
func (s *Store) EndSkip(ctx context.Context, id string) error {
	return database.Outage(endSkip(s.db.WithContext(ctx), id))
}

func endSkip(tx *gorm.DB, id string) error {
	return tx.Exec("DELETE FROM skips WHERE listing_id = ?", id).Error
}

// Finish ends an operator's work on a listing after a review: the operator's lease and draft, and
// the skip.
func (s *Store) Finish(ctx context.Context, id, operator string) error {
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return errors.Join(endLease(tx, id, operator), deleteDraft(tx, id, operator), endSkip(tx, id))
	}))
}

// Exists returns problem.NotFound if there is no listing with the id.
func (s *Store) Exists(ctx context.Context, id string) error {
	return exists(s.db.WithContext(ctx), id)
}

func exists(tx *gorm.DB, id string) error {
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
