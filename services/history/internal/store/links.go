package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

// Link is the application link of a published listing with the state of its last check.
type Link struct {
	Slug    string
	Address string

	// Of the last check, in microseconds since 1970 UTC; 0 before the first.
	DueAt      int64
	ClaimedAt  int64
	RecordedAt int64 // 0 if the check recorded no event
}

// Links returns the links of all published listings.
func (s *Store) Links(ctx context.Context) (links []Link, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT l.id AS slug, l.application_url AS address, coalesce(c.due_at, 0) AS due_at,
			coalesce(c.claimed_at, 0) AS claimed_at, coalesce(c.recorded_at, 0) AS recorded_at
		FROM listings l LEFT JOIN link_checks c ON c.slug = l.id
		WHERE l.published AND l.application_url <> ''`).Scan(&links).Error
	return links, database.Outage(err)
}

// minReread is the shortest time between two requests for a page, also if an operator asks.
const minReread = 10 * time.Minute

// MakeDue makes the pages of a record and its application link due now, except those that were
// requested in the last minReread. It returns their number.
func (s *Store) MakeDue(ctx context.Context, slug string, now time.Time) (int, error) {
	tx := s.db.WithContext(ctx)
	_, urls, err := citationOf(tx, slug)
	if err != nil || len(urls) == 0 {
		return 0, database.Outage(err)
	}
	before := database.Micros(now.Add(-minReread))
	// A page that did not respond is read again, also if no review depends on it.
	pages := tx.Exec("UPDATE pages SET read_at = 0, outcome = ? WHERE url IN ? AND read_at < ?",
		api.OutcomeUnreachable, urls, before)
	if pages.Error != nil {
		return 0, database.Outage(pages.Error)
	}
	links := tx.Exec("UPDATE link_checks SET due_at = 0, claimed_at = 0 WHERE slug = ? AND claimed_at < ?", slug, before)
	return int(pages.RowsAffected), database.Outage(links.Error)
}

// LinkTotals describes the link checks of all processes.
type LinkTotals struct {
	Checks map[api.Outcome]int64 `gorm:"-"` // recorded checks

	// Of the last run, in microseconds (since 1970 UTC); 0 if none has ended.
	EndedAt     int64
	Took        int64
	SucceededAt int64 // of the last run that checked every due link
}

// LinkTotals returns the totals of the link checker. Each run stores them, because its process ends
// before it can be scraped.
func (s *Store) LinkTotals(ctx context.Context) (totals LinkTotals, err error) {
	var outcomes []struct {
		Outcome api.Outcome
		Checks  int64
	}
	db := s.db.WithContext(ctx)
	err = db.Raw("SELECT outcome, checks FROM link_outcomes").Scan(&outcomes).Error
	if err == nil {
		err = db.Raw("SELECT ended_at, took, succeeded_at FROM link_run WHERE id = 1").Scan(&totals).Error
	}
	totals.Checks = map[api.Outcome]int64{}
	for _, o := range outcomes {
		totals.Checks[o.Outcome] = o.Checks
	}
	return totals, database.Outage(err)
}

// ClaimLink claims the check of slug that was due at due. ok is false if it is already claimed or
// if run does not hold the lease.
func (s *Store) ClaimLink(ctx context.Context, run, slug string, due, now time.Time) (ok bool, err error) {
	done := s.db.WithContext(ctx).Exec(`INSERT INTO link_checks (slug, due_at, run, claimed_at, recorded_at)
		SELECT CAST(? AS text), CAST(? AS bigint), run, CAST(? AS bigint), 0 FROM link_run WHERE id = 1 AND run = ?
		ON CONFLICT (slug) DO UPDATE SET due_at = excluded.due_at, run = excluded.run,
			claimed_at = excluded.claimed_at, recorded_at = 0
		WHERE link_checks.due_at < excluded.due_at`,
		slug, database.Micros(due), database.Micros(now), run)
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// ReleaseLink undoes a claim of run, so that the link is due again.
func (s *Store) ReleaseLink(ctx context.Context, run, slug string) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE link_checks SET due_at = 0, claimed_at = 0 WHERE slug = ? AND run = ? AND recorded_at = 0", slug,
			run).Error)
}

var errNoClaim = errors.New("link is not claimed by this run")

// LinkActor is the actor of the events of the link checker.
const LinkActor = "link-check"

// RecordCheck appends the event of a claimed link with the cause of the outcome needs-review, if it
// has one. It returns an error if run does not hold the claim.
func (s *Store) RecordCheck(ctx context.Context, run string, now time.Time, e api.VerificationEvent,
	cause *api.Cause) error {
	r, err := event.New(e)
	if err != nil {
		return err
	}
	r.Actor, r.RecordedAt = LinkActor, database.Micros(now)
	appended := 0
	err = s.exclusively(ctx, appendTimeout, func(tx *gorm.DB, next int64) (int64, error) {
		done := tx.Exec(`UPDATE link_checks SET recorded_at = ?
			WHERE slug = ? AND run = ? AND recorded_at = 0 AND due_at > 0`, r.RecordedAt, e.Slug, run)
		if done.Error == nil && done.RowsAffected != 1 {
			return next, errNoClaim
		}
		if done.Error != nil {
			return next, done.Error
		}
		if err := tx.Exec("UPDATE link_outcomes SET checks = checks + 1 WHERE outcome = ?",
			e.Outcome).Error; err != nil {
			return next, err
		}
		added, _, _, err := appendTo(tx, []proposed{{Record: r, evidence: api.Evidence{Cause: cause}}}, next)
		appended = len(added)
		return next + int64(appended), err
	})
	if err == nil {
		s.appended.Add(int64(appended))
	}
	return err
}

// AcquireRun takes the lease of the link checker, which limits all replicas together to one run at
// a time, until the given time. ok is false if another run holds it at now. The clocks of the
// callers must differ by less than the length of the lease.
func (s *Store) AcquireRun(ctx context.Context, run string, now, until time.Time) (ok bool, err error) {
	done := s.db.WithContext(ctx).Exec("UPDATE link_run SET run = ?, held_until = ? WHERE id = 1 AND held_until <= ?",
		run, database.Micros(until), database.Micros(now))
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// RenewRun extends the lease. ok is false if run no longer holds it.
func (s *Store) RenewRun(ctx context.Context, run string, until time.Time) (ok bool, err error) {
	done := s.db.WithContext(ctx).Exec("UPDATE link_run SET held_until = ? WHERE id = 1 AND run = ?",
		database.Micros(until), run)
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// EndRun releases the lease and stores the run's time and duration. complete is false if the run
// stopped early.
func (s *Store) EndRun(ctx context.Context, run string, now time.Time, took time.Duration, complete bool) error {
	return database.Outage(s.db.WithContext(ctx).Exec(`UPDATE link_run
		SET run = '', held_until = 0, ended_at = ?, took = ?,
			succeeded_at = CASE WHEN ? THEN ? ELSE succeeded_at END WHERE id = 1 AND run = ?`,
		database.Micros(now), took.Microseconds(), complete, database.Micros(now), run).Error)
}
