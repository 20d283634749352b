package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/services/history/internal/linkcheck"
)

// Links are the application links of all published listings, with what is known of the last check of each.
func (s *Store) Links(ctx context.Context) ([]linkcheck.Link, error) {
	var rows []struct {
		Slug, Address string
		DueAt         int64
		ClaimedAt     int64
		RecordedAt    int64
	}
	err := s.db.WithContext(ctx).Raw(`SELECT l.id AS slug, l.application_url AS address, coalesce(c.due_at, 0) AS due_at,
			coalesce(c.claimed_at, 0) AS claimed_at, coalesce(c.recorded_at, 0) AS recorded_at
		FROM listings l LEFT JOIN link_checks c ON c.slug = l.id WHERE l.published AND l.application_url <> ''`).Scan(&rows).Error
	if err != nil {
		return nil, database.Outage(err)
	}
	links := make([]linkcheck.Link, len(rows))
	for i, r := range rows {
		links[i] = linkcheck.Link{
			Slug: r.Slug, Address: r.Address, DueAt: database.FromMicros(r.DueAt), ClaimedAt: database.FromMicros(r.ClaimedAt),
			Recorded: r.RecordedAt > 0,
		}
	}
	return links, nil
}

// Claim takes the link of slug for the instant due. ours is false where somebody did before, or where run does not hold the
// lease: one that was taken for dead and wakes up claims nothing more.
func (s *Store) Claim(ctx context.Context, run, slug string, due, now time.Time) (ours bool, err error) {
	done := s.db.WithContext(ctx).Exec(`INSERT INTO link_checks (slug, due_at, run, claimed_at, recorded_at)
		SELECT CAST(? AS text), CAST(? AS bigint), run, CAST(? AS bigint), 0 FROM link_run WHERE id = 1 AND run = ?
		ON CONFLICT (slug) DO UPDATE SET due_at = excluded.due_at, run = excluded.run, claimed_at = excluded.claimed_at, recorded_at = 0
		WHERE link_checks.due_at < excluded.due_at`,
		slug, database.Micros(due), database.Micros(now), run)
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// Release makes a link due again that run claimed and recorded nothing of.
func (s *Store) Release(ctx context.Context, run, slug string) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE link_checks SET due_at = 0, claimed_at = 0 WHERE slug = ? AND run = ? AND recorded_at = 0", slug, run).Error)
}

var errNoClaim = errors.New("the link is not claimed by this run")

// Record appends the event of a link that run has claimed, as Append does, and marks the claim in the same transaction: of one
// claim no more than one event can come.
func (s *Store) Record(ctx context.Context, run string, now time.Time, e api.VerificationEvent) error {
	_, _, err := s.append(ctx, linkcheck.Actor, now, []eventfile.Line{{Event: e}}, func(tx *gorm.DB) error {
		done := tx.Exec("UPDATE link_checks SET recorded_at = ? WHERE slug = ? AND run = ? AND recorded_at = 0 AND due_at > 0",
			database.Micros(now), e.Slug, run)
		if done.Error == nil && done.RowsAffected != 1 {
			return errNoClaim
		}
		if done.Error != nil {
			return done.Error
		}
		return tx.Exec("UPDATE link_outcomes SET checks = checks + 1 WHERE outcome = ?", e.Outcome).Error
	})
	return err
}

// Acquire takes the lease of the link checker for run, unless another run holds it at now.
func (s *Store) Acquire(ctx context.Context, run string, now, until time.Time) (ours bool, err error) {
	done := s.db.WithContext(ctx).Exec("UPDATE link_run SET run = ?, held_until = ? WHERE id = 1 AND held_until <= ?",
		run, database.Micros(until), database.Micros(now))
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// Renew holds the lease longer; ours is false where run lost it.
func (s *Store) Renew(ctx context.Context, run string, until time.Time) (ours bool, err error) {
	done := s.db.WithContext(ctx).Exec("UPDATE link_run SET held_until = ? WHERE id = 1 AND run = ?", database.Micros(until), run)
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// End gives the lease back, where run still has it, and keeps what metrics tell of the last run.
func (s *Store) End(ctx context.Context, run string, now time.Time, took time.Duration, complete bool) error {
	return database.Outage(s.db.WithContext(ctx).Exec(`UPDATE link_run SET run = '', held_until = 0, ended_at = ?, took = ?,
			succeeded_at = CASE WHEN ? THEN ? ELSE succeeded_at END WHERE id = 1 AND run = ?`,
		database.Micros(now), took.Microseconds(), complete, database.Micros(now), run).Error)
}
