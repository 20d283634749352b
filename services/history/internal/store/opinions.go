package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/services/history/internal/event"
)

// TextsError is the error of a second opinion whose author has to say whether texts mean the same,
// see Differences.
type TextsError struct {
	Texts []api.ComparedTexts
}

func (e *TextsError) Error() string {
	return fmt.Sprintf("%d facts have other words than in the first review", len(e.Texts))
}

// ErrNoOpinion is the error of a second opinion that was not asked of its author: on another
// record, on the author's own review, on one that a later review by another curator replaced, or on
// one that has an opinion.
var ErrNoOpinion = errors.New("no second opinion was requested")

type opinionRow struct {
	EventID    string `gorm:"primaryKey"`
	Sequence   int64
	Slug       string
	Reviewer   string
	DrawnAt    int64
	Actor      *string
	GivenAt    *int64
	Review     *string
	Differs    *string
	RecordedID *string
}

func (opinionRow) TableName() string { return "second_opinions" }

// drawOpinions draws some of the appended events, those of slugs among them, for second opinions.
func drawOpinions(tx *gorm.DB, slugs []string, appended []event.Record) error {
	var listings []listingRow
	if err := tx.Where("id IN ?", slugs).Find(&listings).Error; err != nil {
		return err
	}
	var drawn []opinionRow
	for _, row := range appended {
		i := slices.IndexFunc(listings, func(l listingRow) bool { return l.ID == row.Slug })
		if i < 0 {
			continue
		}
		is, err := event.DrawnForOpinion(row, listings[i].ApplicationURL)
		if err != nil {
			return err
		}
		if is {
			drawn = append(drawn, opinionRow{EventID: row.ID, Sequence: row.Sequence, Slug: row.Slug,
				Reviewer: row.Actor, DrawnAt: row.RecordedAt})
		}
	}
	return database.Insert(tx, drawn, "")
}

// maxOpinions is the maximum number of open requests in a list.
const maxOpinions = 100

// replaced matches the request o if the latest review in effect is a later one by another curator.
// It leaves out undone reviews.
const replaced = `EXISTS (SELECT 1 FROM summaries s JOIN verification_events e ON e.id = s.latest_review
	WHERE s.slug = o.slug AND e.sequence > o.sequence AND e.actor <> o.reviewer)`

// OpinionRequests returns the oldest open requests for second opinions on reviews of others than
// actor. A review that a later one by another curator replaced needs no opinion.
func (s *Store) OpinionRequests(ctx context.Context, actor string) ([]api.OpinionRequest, error) {
	var rows []opinionRow
	err := s.db.WithContext(ctx).Raw(`SELECT o.* FROM second_opinions o
		WHERE o.actor IS NULL AND o.reviewer <> ? AND NOT `+replaced+`
		ORDER BY o.drawn_at, o.event_id LIMIT ?`, actor, maxOpinions).Scan(&rows).Error
	requests := make([]api.OpinionRequest, len(rows))
	for i, row := range rows {
		requests[i] = api.OpinionRequest{EventID: row.EventID, ID: row.Slug, DrawnAt: time.UnixMicro(row.DrawnAt).UTC()}
	}
	return requests, database.Outage(err)
}

// OpinionFacts returns the facts that a second opinion on the review with the id is about, nil if
// there is no such review.
func (s *Store) OpinionFacts(ctx context.Context, id string) ([]string, error) {
	names, err := opinionFacts(s.db.WithContext(ctx), id)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, nil
	}
	return names, database.Outage(err)
}

func opinionFacts(tx *gorm.DB, id string) ([]string, error) {
	var row event.Record
	if err := tx.Where("id = ?", id).Take(&row).Error; err != nil {
		return nil, err
	}
	return event.OpinionFacts(row)
}

// Opinion returns the second opinion that was recorded as the event with the id and differs from
// the first review, or nil.
func (s *Store) Opinion(ctx context.Context, recordedID string) (*api.SecondOpinion, error) {
	var row opinionRow
	err := s.db.WithContext(ctx).Where("recorded_id = ?", recordedID).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, database.Outage(err)
	}
	o := api.SecondOpinion{
		EventID: row.EventID, Actor: *row.Actor, GivenAt: time.UnixMicro(*row.GivenAt).UTC(),
		Review: json.RawMessage(*row.Review), Event: recordedID,
	}
	if err := json.Unmarshal([]byte(*row.Differs), &o.Differs); err != nil || len(o.Differs) == 0 {
		return nil, err
	}
	return &o, nil
}

// secondOpinion appends the review as a second opinion with the sequence next, unless it agrees
// with the first review or was given before.
func secondOpinion(tx *gorm.DB, now time.Time, p Proposal, next int64) (done Reviewed, err error) {
	row, repeated, err := findOpinion(tx, p.SecondOpinionOf, p.Actor, p.Line.Event.Slug, p.Sent)
	if err != nil {
		return done, err
	}
	if repeated {
		done.Duplicate = true
		return done, errors.Join(tx.Where("id = ?", *row.RecordedID).Take(&done.Record).Error,
			json.Unmarshal([]byte(*row.Differs), &done.Differs))
	}
	first, err := firstReview(tx, row)
	if err != nil {
		return done, err
	}
	names, err := opinionFacts(tx, row.EventID)
	if err != nil {
		return done, err
	}
	differs := []string{}
	// otherwise its author took it back, and there is nothing to disagree with
	if first != nil && first.Outcome == api.OutcomeVerified {
		var texts []api.ComparedTexts
		if differs, texts = event.Differences(*first, p.Line.Event, names, p.SameTexts); len(texts) > 0 {
			return done, &TextsError{Texts: texts}
		}
	}
	if len(differs) == 0 {
		done.Duplicate = true
		err = tx.Where("id = ?", row.EventID).Take(&done.Record).Error
	} else {
		p.Line.Event = event.Disagreement(p.Line.Event, differs)
		if err := passOver(tx, &p.Line, row.Reviewer); err != nil {
			return done, err
		}
		done, err = appendReview(tx, now, p, next)
	}
	if unseen := new(UnseenError); errors.As(err, &unseen) {
		unseen.Events = slices.DeleteFunc(unseen.Events,
			func(r event.Record) bool { return r.ReviewBy(row.Reviewer) })
	}
	if err != nil {
		return done, err
	}
	text, err := json.Marshal(differs)
	if err != nil {
		return done, err
	}
	done.Differs = differs
	return done, tx.Model(&opinionRow{}).Where("event_id = ?", row.EventID).Updates(map[string]any{
		"actor": p.Actor, "given_at": now.UnixMicro(), "review": p.Sent, "differs": string(text),
		"recorded_id": done.Record.ID,
	}).Error
}

// findOpinion returns the request for a second opinion of actor on the review, or
// ErrNoOpinion. Repeated is true if actor gave this opinion before.
func findOpinion(tx *gorm.DB, of, actor, slug, review string) (row opinionRow, repeated bool, err error) {
	if err := tx.Where("event_id = ?", of).Take(&row).Error; err != nil {
		if errors.Is(err, gorm.ErrRecordNotFound) {
			err = ErrNoOpinion
		}
		return row, false, err
	}
	if row.Slug != slug || row.Reviewer == actor {
		return row, false, ErrNoOpinion
	}
	if row.Actor != nil {
		if *row.Actor == actor && *row.Review == review {
			return row, true, nil
		}
		return row, false, ErrNoOpinion
	}
	var ended int64
	err = tx.Table("second_opinions o").Where("o.event_id = ? AND "+replaced, of).Count(&ended).Error
	if err == nil && ended > 0 {
		err = ErrNoOpinion
	}
	return row, false, err
}

// firstReview returns the review that a second opinion is compared with: the drawn one, or a later
// one with which its author replaced it. It returns nil if its author undid them.
func firstReview(tx *gorm.DB, drawn opinionRow) (*api.VerificationEvent, error) {
	var row event.Record
	err := tx.Where("id = (SELECT latest_review FROM summaries WHERE slug = ?) AND sequence >= ?", drawn.Slug,
		drawn.Sequence).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	first, err := row.Event()
	return &first, err
}

// passOver moves the precondition of a second opinion past reviews by the author of the first one,
// which its author must not know.
func passOver(tx *gorm.DB, opinion *eventfile.Line, reviewer string) error {
	if opinion.LastEventID == nil {
		return nil
	}
	var rows []event.Record
	if err := tx.Select("id", "check_type", "actor").Where("slug = ?",
		opinion.Event.Slug).Order("sequence").Find(&rows).Error; err != nil {
		return err
	}
	seen := slices.IndexFunc(rows, func(r event.Record) bool { return r.ID == *opinion.LastEventID })
	for seen >= 0 && seen+1 < len(rows) && rows[seen+1].ReviewBy(reviewer) {
		seen++
		opinion.LastEventID = &rows[seen].ID
	}
	return nil
}
