// Package review derives which records are due for a factual review, and why.
//
// Record.Reasons agrees with api.Summary.StatusAt: a record has a reason at a given time if and
// only if it is not verified at that time. Level spreads the reviews evenly over the working days,
// so that each is done before its record falls due. QueueFilter and Position are a page of the
// review queue, which package curation reads. NeedsOpening draws the unchanged reviews whose author
// must have opened a source.
package review

import (
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
)

// Record is a listing with its verification summary and its edits.
type Record struct {
	Entry   listing.Entry
	Summary api.Summary       // zero value if history has none
	Edits   []api.ListingEdit // edits with material changes, oldest first; those before the latest review are ignored
}

// Facts returns the facts that consumers see, or would see if the listing were published.
func (r Record) Facts() api.Facts { return r.Entry.Public(r.Summary, time.Time{}).Facts }

// Status returns the status at the time of the latest review: verified records turn stale later.
func (r Record) Status() api.VerificationStatus {
	if r.Summary.LastCheckedAt == nil {
		return api.Unverified
	}
	return r.Summary.StatusAt(r.Entry.ChangedAt, *r.Summary.LastCheckedAt)
}

// EditsSinceReview returns the edits after the latest review, or all edits if there was no review.
// Fields has material ones only.
func (r Record) EditsSinceReview() []api.ListingEdit {
	edits := []api.ListingEdit{}
	for _, e := range r.Edits {
		if at := r.Summary.LastCheckedAt; at != nil && !e.At.After(*at) {
			continue
		}
		material := slices.DeleteFunc(slices.Clone(e.Fields), func(f string) bool { return !listing.Material(f) })
		edits = append(edits, api.ListingEdit{At: e.At, Actor: e.Actor, Fields: material, Changes: e.Changes})
	}
	return edits
}

// Reasons returns why the record is due, earliest first. A verified record has one reason in the
// future: it turns stale.
func (r Record) Reasons() []api.DueReason {
	s := r.Summary
	if s.LastCheckedAt == nil {
		never := api.DueReason{Why: api.DueNeverReviewed}
		if r.Entry.PublishedAt != nil {
			never.At = *r.Entry.PublishedAt
		}
		return []api.DueReason{never}
	}
	var reasons []api.DueReason
	switch {
	case s.LastOutcome == api.OutcomeClosed: // a paused programme may reopen; one that has ended is with the publishers
		closed := eventReason(s, api.DueClosed, *s.LastCheckedAt, s.LastOutcome)
		closed.At = closed.At.Add(api.FreshnessWindow)
		reasons = append(reasons, closed)
	case s.LastOutcome != api.OutcomeVerified:
		reasons = append(reasons, eventReason(s, api.DueReview, *s.LastCheckedAt, s.LastOutcome))
	case s.ConflictAt != nil:
		outcome := api.Outcome("")
		if l := s.ApplicationLink; l != nil && l.CheckedAt.Equal(*s.ConflictAt) {
			outcome = l.Outcome
		}
		reasons = append(reasons, eventReason(s, api.DueLinkCheck, *s.ConflictAt, outcome))
	}
	for _, e := range r.doubtingEdits() {
		reasons = append(reasons, api.DueReason{Why: api.DueEdit, At: e.At, Fields: e.Fields, Actor: e.Actor})
	}
	if s.LastOutcome == api.OutcomeVerified {
		reasons = append(reasons, api.DueReason{Why: api.DueStale, At: s.LastCheckedAt.Add(api.FreshnessWindow)})
	}
	slices.SortStableFunc(reasons, func(a, b api.DueReason) int { return a.At.Compare(b.At) })
	return reasons
}

// doubtingEdits returns the edits that put the latest review in doubt. Entry.ChangedAt decides
// whether there is one, because the status is derived from it.
func (r Record) doubtingEdits() []api.ListingEdit {
	at := r.Entry.ChangedAt
	if at == nil || !at.After(*r.Summary.LastCheckedAt) {
		return nil
	}
	if edits := r.EditsSinceReview(); len(edits) > 0 {
		return edits
	}
	return []api.ListingEdit{{At: *at}}
}

// eventReason returns the reason for an event. A summary stored by a release without Doubt does not
// name the event.
func eventReason(s api.Summary, why string, at time.Time, outcome api.Outcome) api.DueReason {
	if d := s.Doubt; d != nil {
		return api.DueReason{Why: why, At: d.CheckedAt, Outcome: d.Outcome, EventID: d.EventID, Note: d.Note}
	}
	return api.DueReason{Why: why, At: at, Outcome: outcome}
}

// ReasonsAt returns the reasons that apply at until. A review is still fresh at the exact end of
// its freshness window.
func ReasonsAt(reasons []api.DueReason, until time.Time) []api.DueReason {
	return slices.DeleteFunc(reasons, func(d api.DueReason) bool {
		return d.Why == api.DueStale &&
			!d.At.Before(until)
	})
}
