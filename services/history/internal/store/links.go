package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/linkcheck"
)

// LinkChecks stores the state of link checks. Its methods return problem.Unavailable during an
// outage of the database.
type LinkChecks struct {
	db     *database.DB
	events *Store
}

// NewLinkChecks returns the link checks in db.
func NewLinkChecks(db *database.DB) LinkChecks { return LinkChecks{db, New(db)} }

// Links implements linkcheck.Store.
func (s LinkChecks) Links(ctx context.Context) ([]linkcheck.Link, error) {
	var rows []struct {
		Slug, Address string
		DueAt         int64
		ClaimedAt     int64
		RecordedAt    int64
	}
	err := s.db.WithContext(ctx).Raw(`SELECT l.id AS slug, l.application_url AS address, coalesce(c.due_at, 0) AS due_at,
			coalesce(c.claimed_at, 0) AS claimed_at, coalesce(c.recorded_at, 0) AS recorded_at
		FROM listings l LEFT JOIN link_checks c ON c.slug = l.id
		WHERE l.published AND l.application_url <> ''`).Scan(&rows).Error
	if err != nil {
		return nil, database.Outage(err)
	}
	links := make([]linkcheck.Link, len(rows))
	for i, r := range rows {
		links[i] = linkcheck.Link{
			Slug: r.Slug, Address: r.Address, DueAt: database.FromMicros(r.DueAt),
			ClaimedAt: database.FromMicros(r.ClaimedAt),
			Recorded:  r.RecordedAt > 0,
		}
	}
	return links, nil
}

// minReread is the shortest time between two requests for a page, also if an operator asks.
const minReread = 10 * time.Minute

// MakeDue makes the pages of a record and its application link due now, except those that were
// requested in the last minReread. It returns their number.
func (s LinkChecks) MakeDue(ctx context.Context, slug string, now time.Time) (int, error) {
	tx := s.db.WithContext(ctx)
	urls, _, err := recordPages(tx, slug)
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
	Checks      map[api.Outcome]int64 // recorded checks
	EndedAt     time.Time             // of the last run; zero if none has ended
	Duration    time.Duration         // of the last run
	SucceededAt time.Time             // end of the last run that checked every due link
}

// Totals returns the totals of the link checker. Each run stores them, because its process ends
// before it can be scraped.
func (s LinkChecks) Totals(ctx context.Context) (LinkTotals, error) {
	var outcomes []struct {
		Outcome api.Outcome
		Checks  int64
	}
	if err := s.db.WithContext(ctx).Raw("SELECT outcome, checks FROM link_outcomes").Scan(&outcomes).Error; err != nil {
		return LinkTotals{}, database.Outage(err)
	}
	var last struct{ EndedAt, Took, SucceededAt int64 }
	if err := s.db.WithContext(ctx).Raw("SELECT ended_at, took, succeeded_at FROM link_run WHERE id = 1").Scan(&last).
		Error; err != nil {
		return LinkTotals{}, database.Outage(err)
	}
	totals := LinkTotals{Checks: map[api.Outcome]int64{}, Duration: time.Duration(last.Took) * time.Microsecond}
	for _, o := range outcomes {
		totals.Checks[o.Outcome] = o.Checks
	}
	if last.EndedAt > 0 {
		totals.EndedAt, totals.SucceededAt = database.FromMicros(last.EndedAt), database.FromMicros(last.SucceededAt)
	}
	return totals, nil
}

// Claim implements linkcheck.Store.
func (s LinkChecks) Claim(ctx context.Context, run, slug string, due, now time.Time) (ok bool, err error) {
	done := s.db.WithContext(ctx).Exec(`INSERT INTO link_checks (slug, due_at, run, claimed_at, recorded_at)
		SELECT CAST(? AS text), CAST(? AS bigint), run, CAST(? AS bigint), 0 FROM link_run WHERE id = 1 AND run = ?
		ON CONFLICT (slug) DO UPDATE SET due_at = excluded.due_at, run = excluded.run,
			claimed_at = excluded.claimed_at, recorded_at = 0
		WHERE link_checks.due_at < excluded.due_at`,
		slug, database.Micros(due), database.Micros(now), run)
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// Release implements linkcheck.Store.
func (s LinkChecks) Release(ctx context.Context, run, slug string) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE link_checks SET due_at = 0, claimed_at = 0 WHERE slug = ? AND run = ? AND recorded_at = 0", slug,
			run).Error)
}

var errNoClaim = errors.New("link is not claimed by this run")

// Record implements linkcheck.Store.
func (s LinkChecks) Record(ctx context.Context, run string, now time.Time, e api.VerificationEvent,
	cause *api.Cause) error {
	r, err := event.New(e)
	if err != nil {
		return err
	}
	r.Actor, r.RecordedAt = linkcheck.Actor, database.Micros(now)
	appended := 0
	err = s.events.exclusively(ctx, appendTimeout, func(tx *gorm.DB, next int64) (int64, error) {
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
		added, _, _, err := appendTo(tx, []string{r.Slug},
			map[string][]proposed{r.Slug: {{Record: r, evidence: api.Evidence{Cause: cause}}}}, next)
		appended = len(added)
		return next + int64(appended), err
	})
	if err == nil {
		s.events.appended.Add(int64(appended))
	}
	return err
}

// Acquire implements linkcheck.Store.
func (s LinkChecks) Acquire(ctx context.Context, run string, now, until time.Time) (ok bool, err error) {
	done := s.db.WithContext(ctx).Exec("UPDATE link_run SET run = ?, held_until = ? WHERE id = 1 AND held_until <= ?",
		run, database.Micros(until), database.Micros(now))
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// Renew implements linkcheck.Store.
func (s LinkChecks) Renew(ctx context.Context, run string, until time.Time) (ok bool, err error) {
	done := s.db.WithContext(ctx).Exec("UPDATE link_run SET held_until = ? WHERE id = 1 AND run = ?",
		database.Micros(until), run)
	return done.RowsAffected == 1, database.Outage(done.Error)
}

// End implements linkcheck.Store.
func (s LinkChecks) End(ctx context.Context, run string, now time.Time, duration time.Duration, complete bool) error {
	return database.Outage(s.db.WithContext(ctx).Exec(`UPDATE link_run
		SET run = '', held_until = 0, ended_at = ?, took = ?,
			succeeded_at = CASE WHEN ? THEN ? ELSE succeeded_at END WHERE id = 1 AND run = ?`,
		database.Micros(now), duration.Microseconds(), complete, database.Micros(now), run).Error)
}
