package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

// RecordHistory returns all events of slug, newest check first, and their state with the sequence
// and the id of the newest event. Of checks with the same time, the last recorded comes first. A
// slug without events has the zero sequence. The event with the id without, if any, and later
// reviews by its author are left out, also of the state, except for its LastEventID: a second
// opinion must not know them.
func (s *Store) RecordHistory(ctx context.Context, slug, without string) ([]event.Record, event.State, error) {
	var all []event.Record
	if err := s.db.WithContext(ctx).Where("slug = ?", slug).Order("checked_at DESC, sequence DESC").
		Find(&all).Error; err != nil {
		return nil, event.State{}, database.Outage(err)
	}
	records := make([]event.Record, 0, len(all))
	var newest, hidden event.Record
	if i := slices.IndexFunc(all, func(r event.Record) bool { return r.ID == without }); i >= 0 {
		hidden = all[i]
	}
	for _, r := range all {
		if r.Sequence > newest.Sequence {
			newest = r
		}
		if hidden.ID == "" || r.ID != hidden.ID && (r.Sequence < hidden.Sequence || !r.ReviewBy(hidden.Actor)) {
			records = append(records, r)
		}
	}
	state, err := event.StateOfRecords(slug, records)
	state.Sequence, state.LastEventID = newest.Sequence, newest.ID
	return records, state, err
}

// Review records one review like Append. It also returns the recorded event with that content. A
// second opinion that differs from the first review is recorded as a disagreement; one that agrees
// records no event, because its author looked at some facts only, and returns the first review as a
// duplicate. It returns event.ErrNoOpinion if none was requested, and an event.TextsError if
// its author has to compare texts.
func (s *Store) Review(ctx context.Context, now time.Time, p event.Proposal) (done event.Reviewed, err error) {
	err = s.exclusively(ctx, appendTimeout, func(tx *gorm.DB, next int64) (int64, error) {
		var appended []event.Record
		if p.SecondOpinionOf != "" {
			done, appended, err = secondOpinion(tx, now, p, next)
		} else {
			done, appended, err = appendReview(tx, now, p, next)
		}
		return next + int64(len(appended)), err
	})
	if err == nil && !done.Duplicate {
		s.appended.Add(1)
	}
	return done, err
}

// appendReview appends the review with the sequence next, unless it is a duplicate.
func appendReview(tx *gorm.DB, now time.Time, p event.Proposal, next int64) (done event.Reviewed,
	appended []event.Record,
	err error) {
	r, err := propose(p.Line, p.Actor, now)
	if err != nil {
		return done, nil, err
	}
	r.evidence.Undoes, r.evidence.Opened = p.Undoes, p.Opened
	appended, duplicates, unseen, err := appendTo(tx, []proposed{r}, next)
	if err != nil {
		return done, nil, err
	}
	if len(unseen) > 0 {
		return done, nil, &event.UnseenError{Events: unseen}
	}
	done, err = reviewed(tx.Where("slug = ? AND content_hash = ?", r.Slug, r.ContentHash))
	done.Duplicate = duplicates > 0
	return done, appended, err
}

// reviewed returns the event that match selects.
func reviewed(match *gorm.DB) (event.Reviewed, error) {
	var recorded event.Record
	err := match.Take(&recorded).Error
	return event.Reviewed{Record: recorded}, err
}

// secondOpinion appends the review as a second opinion with the sequence next, unless it was given
// before.
func secondOpinion(tx *gorm.DB, now time.Time, p event.Proposal, next int64) (done event.Reviewed,
	appended []event.Record,
	err error) {
	row, repeated, err := findOpinion(tx, p.SecondOpinionOf, p.Actor, p.Line.Event.Slug, p.Sent)
	if err != nil {
		return done, nil, err
	}
	if repeated {
		done, err = reviewed(tx.Where("id = ?", *row.RecordedID))
		done.Duplicate = true
		return done, nil, errors.Join(err, json.Unmarshal([]byte(*row.Differs), &done.Differs))
	}
	first, err := firstReview(tx, row)
	if err != nil {
		return done, nil, err
	}
	names, err := opinionFacts(tx, row.EventID)
	if err != nil {
		return done, nil, err
	}
	differs := []string{}
	// otherwise its author took it back, and there is nothing to disagree with
	if first != nil && first.Outcome == api.OutcomeVerified {
		var texts []api.ComparedTexts
		if differs, texts = event.Differences(*first, p.Line.Event, names, p.SameTexts); len(texts) > 0 {
			return done, nil, &event.TextsError{Texts: texts}
		}
	}
	if len(differs) == 0 {
		done, err = reviewed(tx.Where("id = ?", row.EventID))
		done.Duplicate = true
	} else {
		p.Line.Event = event.Disagreement(p.Line.Event, differs)
		if err := passOver(tx, &p.Line, row.Reviewer); err != nil {
			return done, nil, err
		}
		done, appended, err = appendReview(tx, now, p, next)
	}
	if unseen := new(event.UnseenError); errors.As(err, &unseen) {
		unseen.Events = slices.DeleteFunc(unseen.Events,
			func(r event.Record) bool { return r.ReviewBy(row.Reviewer) })
	}
	if err != nil {
		return done, nil, err
	}
	text, err := json.Marshal(differs)
	if err != nil {
		return done, nil, err
	}
	done.Differs = differs
	return done, appended, tx.Model(&opinionRow{}).Where("event_id = ?", row.EventID).Updates(map[string]any{
		"actor": p.Actor, "given_at": now.UnixMicro(), "review": p.Sent, "differs": string(text),
		"recorded_id": done.Record.ID,
	}).Error
}
