package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/history/internal/event"
)

type summaryRow struct {
	Slug     string `gorm:"primaryKey"`
	Sequence int64
	Events   int
	Summary  string

	LatestReview, LatestVerified, LatestEvidence string // ids, as in event.State
}

func (summaryRow) TableName() string { return "summaries" }

const (
	// appendTimeout limits an append with its wait for others, so that a hanging append does not
	// block all later ones.
	appendTimeout = time.Minute
	// fileTimeout is the limit for a file, with the time in which the rest of a large one arrives.
	fileTimeout = api.FileTimeout - time.Minute
	// linesPerBatch is the number of lines of a file that are in memory, with the complete histories
	// of their listings.
	linesPerBatch = 200
)

// Lines passes the valid lines of a file to add. It returns the error of add or of the file.
type Lines = func(add func(eventfile.Line) error) error

// proposed is a record to append with the ID of the newest event that its author had seen, or nil.
type proposed struct {
	event.Record

	LastEventID *string
	evidence    api.Evidence
}

func propose(l eventfile.Line, actor string, now time.Time) (proposed, error) {
	r, err := event.New(l.Event)
	if err != nil {
		return proposed{}, err
	}
	r.Actor, r.RecordedAt = actor, max(now.UnixMicro(), r.CheckedAt)
	return proposed{Record: r, LastEventID: l.LastEventID, evidence: l.Evidence}, nil
}

// UnseenError is the error of an append by an author who has not seen the newest events of a
// listing.
type UnseenError struct {
	Events []event.Record // the unseen events, oldest first
}

func (e *UnseenError) Error() string {
	return fmt.Sprintf("%d events were recorded since the listing was looked at", len(e.Events))
}

// Append records the events of lines at now and updates the summaries, in one transaction, while
// the lines arrive. An event with a later check is recorded at the time of the check. Append skips
// and counts duplicates, which are events with the content of a recorded event, so a file may be
// appended again. It returns an UnseenError if a listing has events after a line's
// LastEventID. An error of lines undoes the append and is returned unchanged.
func (s *Store) Append(ctx context.Context, actor string, now time.Time, lines Lines) (appended, duplicates int,
	err error) {
	err = s.exclusively(ctx, fileTimeout, func(tx *gorm.DB, next int64) (int64, error) {
		var batch []proposed
		var unseen []event.Record
		flush := func() error {
			added, repeated, missed, err := appendTo(tx, batch, next)
			batch, next = nil, next+int64(len(added))
			appended, duplicates, unseen = appended+len(added), duplicates+repeated, append(unseen, missed...)
			return err
		}
		err := lines(func(l eventfile.Line) error {
			p, err := propose(l, actor, now)
			if err != nil {
				return err
			}
			if batch = append(batch, p); len(batch) < linesPerBatch {
				return nil
			}
			return flush()
		})
		if err == nil {
			err = flush()
		}
		if err == nil && len(unseen) > 0 {
			err = &UnseenError{Events: unseen}
		}
		return next, err
	})
	if err != nil {
		return 0, 0, err
	}
	s.appended.Add(int64(appended))
	return appended, duplicates, nil
}

// Proposal is a review to record.
type Proposal struct {
	api.ReviewAppend

	Line eventfile.Line // the review, checked
	Sent string         // the review as sent; JSON
}

// Reviewed is the result of recording a review.
type Reviewed struct {
	Record    event.Record // as recorded, now or before
	Duplicate bool         // a review with this content was recorded before
	Differs   []string     // in what a second opinion differs, see Differences
}

// Review records one review like Append. It also returns the recorded event with that content. A
// second opinion that differs from the first review is recorded as a disagreement; one that agrees
// records no event, because its author looked at some facts only, and returns the first review as a
// duplicate. It returns ErrNoOpinion if none was requested, and an TextsError if
// its author has to compare texts.
func (s *Store) Review(ctx context.Context, now time.Time, p Proposal) (done Reviewed, err error) {
	record := appendReview
	if p.SecondOpinionOf != "" {
		record = secondOpinion
	}
	err = s.exclusively(ctx, appendTimeout, func(tx *gorm.DB, next int64) (int64, error) {
		done, err = record(tx, now, p, next)
		if err == nil && !done.Duplicate {
			next++
		}
		return next, err
	})
	if err == nil && !done.Duplicate {
		s.appended.Add(1)
	}
	return done, err
}

// appendReview appends the review with the sequence next, unless it is a duplicate.
func appendReview(tx *gorm.DB, now time.Time, p Proposal, next int64) (done Reviewed, err error) {
	r, err := propose(p.Line, p.Actor, now)
	if err != nil {
		return done, err
	}
	r.evidence.Undoes, r.evidence.Opened = p.Undoes, p.Opened
	_, duplicates, unseen, err := appendTo(tx, []proposed{r}, next)
	if err == nil && len(unseen) > 0 {
		err = &UnseenError{Events: unseen}
	}
	if err != nil {
		return done, err
	}
	done.Duplicate = duplicates > 0
	return done, tx.Where("slug = ? AND content_hash = ?", r.Slug, r.ContentHash).Take(&done.Record).Error
}

// exclusively runs work, within a time limit, in a transaction during which no replica appends.
// work receives the next free sequence and returns the one after those that it used.
func (s *Store) exclusively(ctx context.Context, limit time.Duration,
	work func(tx *gorm.DB, next int64) (int64, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Appends wait for each other in any case. Waiting here holds no connection that readers need,
	// and is fairer than SQLite's lock.
	select {
	case s.appending <- struct{}{}:
		defer func() { <-s.appending }()
	case <-ctx.Done():
		return database.Outage(ctx.Err())
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		next, err := database.NextSequence(tx) // its lock makes this the only append of all replicas until commit
		if err != nil {
			return err
		}
		if err := database.PreferIndexes(tx); err != nil {
			return err
		}
		if next, err = work(tx, next); err != nil {
			return err
		}
		return tx.Exec("UPDATE change_sequence SET value = ? WHERE id = 1", next-1).Error
	})
	// a commit, for example, does not report the timeout
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		return problem.Unavailable(err)
	}
	return database.Outage(err)
}

// appendTo appends the proposed records with sequences from next: those of a listing in their
// order, and the listings in that of their first records. It updates their summaries and draws
// second opinions. It returns the appended events, the number of duplicates, and the unseen events
// of the listings that it therefore skipped.
func appendTo(tx *gorm.DB, records []proposed, next int64,
) (fresh []event.Record, duplicates int, unseen []event.Record, err error) {
	if err := addCaptures(tx, records); err != nil {
		return nil, 0, nil, err
	}
	slugs, bySlug := grouped(records)
	histories, err := load(tx, allColumns, len(slugs), slugs)
	if err != nil {
		return nil, 0, nil, err
	}
	var summaries []summaryRow
	for _, slug := range slugs {
		history, added, err := extend(histories[slug], bySlug[slug], next+int64(len(fresh)))
		if missed := new(UnseenError); errors.As(err, &missed) {
			unseen = append(unseen, missed.Events...)
			continue
		}
		if err != nil {
			return nil, 0, nil, err
		}
		duplicates += len(bySlug[slug]) - added
		if added == 0 {
			continue
		}
		fresh = append(fresh, history[len(history)-added:]...)
		row, err := summarize(slug, history)
		if err != nil {
			return nil, 0, nil, err
		}
		summaries = append(summaries, row)
	}
	return fresh, duplicates, unseen, errors.Join(database.Insert(tx, fresh, ""), database.Insert(tx, summaries, "slug"),
		followReviews(tx, fresh))
}

// grouped returns the slugs of records, in the order of their first records, and the records of
// each.
func grouped(records []proposed) (slugs []string, bySlug map[string][]proposed) {
	bySlug = map[string][]proposed{}
	for _, r := range records {
		if bySlug[r.Slug] == nil {
			slugs = append(slugs, r.Slug)
		}
		bySlug[r.Slug] = append(bySlug[r.Slug], r)
	}
	return slugs, bySlug
}

// extend appends the records that the history lacks, with sequences from next, and returns the
// number of added records. It sets the content hash of each to that of the recorded event. It
// returns an UnseenError if the history contains events that the author of a record had not
// seen.
func extend(history []event.Record, records []proposed, next int64) (extended []event.Record, added int, err error) {
	held := make(map[string]bool, len(history)+len(records)) // by content hash
	for i := range history {
		held[history[i].ContentHash] = true
	}
	before := history
	for i := range records {
		p := &records[i]
		if held[p.ContentHash] { // a duplicate, perhaps after a lost response: skip the precondition
			continue
		}
		if p.LastEventID != nil {
			if newer := recordedAfter(before, *p.LastEventID); len(newer) > 0 {
				return nil, 0, &UnseenError{Events: newer}
			}
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, 0, err
		}
		p.ID, p.Sequence = id.String(), next+int64(added)
		if err := p.Attach(p.evidence); err != nil {
			return nil, 0, err
		}
		held[p.ContentHash] = true
		history = append(history, p.Record)
		added++
	}
	return history, added, nil
}

const maxUnseen = 20 // events of one listing in an UnseenError

// recordedAfter returns the last events of the history that were recorded after the event with that
// id: all of them, up to maxUnseen, if the history does not hold it.
func recordedAfter(history []event.Record, id string) []event.Record {
	at := slices.IndexFunc(history, func(r event.Record) bool { return r.ID == id }) // -1: everything is newer
	return history[max(at+1, len(history)-maxUnseen):]
}

// summarize derives the summary of a history, which must not be empty.
func summarize(slug string, history []event.Record) (summaryRow, error) {
	state, err := event.StateOfRecords(slug, history)
	if err != nil {
		return summaryRow{}, err
	}
	text, err := json.Marshal(state.Summary)
	return summaryRow{
		Slug: slug, Sequence: state.Sequence, Events: len(history), Summary: string(text),
		LatestReview: state.LatestReview, LatestVerified: state.LatestVerified, LatestEvidence: state.LatestEvidence,
	}, err
}

// followReviews deletes the findings of the listings with a review among the appended events, which
// may have other quotes, and draws some of the reviews for second opinions.
func followReviews(tx *gorm.DB, appended []event.Record) error {
	var slugs []string
	for _, row := range appended {
		if row.CheckType == api.FactualReview {
			slugs = append(slugs, row.Slug)
		}
	}
	if len(slugs) == 0 {
		return nil
	}
	if err := tx.Where("slug IN ?", slugs).Delete(&findingRow{}).Error; err != nil {
		return err
	}
	return drawOpinions(tx, slugs, appended)
}

// load returns the histories of slugs, which have about n events, with the columns that columns
// names.
func load(tx *gorm.DB, columns string, n int, slugs []string) (map[string][]event.Record, error) {
	records, err := findRecords(tx, columns, n, "slug IN ? ORDER BY slug, sequence", slugs)
	histories := make(map[string][]event.Record, len(slugs))
	for from, to := 0, 0; from < len(records); from = to {
		slug := records[from].Slug
		for to < len(records) && records[to].Slug == slug {
			to++
		}
		histories[slug] = records[from:to:to]
	}
	return histories, err
}

// The columns of event.Record, and the part of them that summaries depend on.
const (
	eventColumns = "sequence, id, slug, checked_at, check_type, outcome, source_urls, facts, note, evidence"
	allColumns   = eventColumns + ", actor, recorded_at, content_hash"
)

// findRecords returns the columns of the matching events. n is their approximate number. It avoids
// gorm's reflection, because verification reads all events.
func findRecords(db *gorm.DB, columns string, n int, condition string, args ...any) ([]event.Record, error) {
	rows, err := db.Raw("SELECT "+columns+" FROM verification_events WHERE "+condition, args...).Rows()
	if err != nil {
		return nil, database.Outage(err)
	}
	defer rows.Close()
	records := make([]event.Record, 0, n)
	var r event.Record
	into := []any{&r.Sequence, &r.ID, &r.Slug, &r.CheckedAt, (*string)(&r.CheckType), (*string)(&r.Outcome),
		&r.SourceURLs, &r.Facts, &r.Note, &r.Evidence,
		&r.Actor, &r.RecordedAt, &r.ContentHash}
	if columns == eventColumns {
		into = into[:10]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, database.Outage(err)
		}
		records = append(records, r)
	}
	return records, database.Outage(rows.Err())
}

// Summaries returns up to limit summaries with a sequence above after, ordered by sequence.
func (s *Store) Summaries(ctx context.Context, after int64, limit int) ([]api.EncodedSummary, error) {
	var rows []summaryRow
	err := s.db.WithContext(ctx).Where("sequence > ?", after).Order("sequence").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, database.Outage(err)
	}
	summaries := make([]api.EncodedSummary, len(rows))
	for i, row := range rows {
		summaries[i] = api.EncodedSummary{Slug: row.Slug, Sequence: row.Sequence, JSON: row.Summary}
	}
	return summaries, nil
}
