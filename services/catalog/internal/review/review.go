// Package review tells why a record is due for a factual review. It agrees with api.Summary.StatusAt: a record has a reason that
// holds at an instant if and only if it is not verified then.
package review

import (
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
)

// Record is what the catalog knows of a listing that may be due.
type Record struct {
	Entry   listing.Entry
	Summary api.Summary       // its zero value where history says nothing
	Edits   []api.ListingEdit // material ones, oldest first; only those after the latest review matter
}

// Since are the edits after the latest review; all where there is none.
func (r Record) EditsSinceReview() []api.ListingEdit {
	edits := []api.ListingEdit{}
	for _, e := range r.Edits {
		if at := r.Summary.LastCheckedAt; at != nil && !e.At.After(*at) {
			continue
		}
		material := slices.DeleteFunc(slices.Clone(e.Fields), func(f string) bool { return !slices.Contains(listing.Material, f) })
		edits = append(edits, api.ListingEdit{At: e.At, Actor: e.Actor, Fields: material})
	}
	return edits
}

// Reasons are the reasons for which the record is due, earliest first. One lies ahead where the record is verified: the last
// instant of its freshness.
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

// edits are those that put the latest review in doubt. The entry has the last word on whether there is one: it is what the status
// is made from.
func (r Record) doubtingEdits() []api.ListingEdit {
	at := r.Entry.ChangedAt
	if at == nil || !at.After(*r.Summary.LastCheckedAt) {
		return nil
	}
	if since := r.EditsSinceReview(); len(since) > 0 {
		return since
	}
	return []api.ListingEdit{{At: *at}}
}

// event is a reason of an event. A summary from before there were doubts does not name it.
func eventReason(s api.Summary, why string, at time.Time, outcome api.Outcome) api.DueReason {
	if d := s.Doubt; d != nil {
		return api.DueReason{Why: why, At: d.CheckedAt, Outcome: d.Outcome, EventID: d.EventID, Note: d.Note}
	}
	return api.DueReason{Why: why, At: at, Outcome: outcome}
}

// At returns the reasons that hold at until. A review is still fresh at the very instant at which its freshness ends.
func (r Record) ReasonsAt(until time.Time) []api.DueReason {
	return slices.DeleteFunc(r.Reasons(), func(d api.DueReason) bool { return d.Why == api.DueStale && !d.At.Before(until) })
}

// Due is the record as it stands in a list of what is due by until, and whether it does.
func (r Record) Due(now, until time.Time) (api.DueRecord, bool) {
	reasons := r.ReasonsAt(until)
	if len(reasons) == 0 {
		return api.DueRecord{}, false
	}
	return api.DueRecord{
		ID: r.Entry.ID, Company: r.Entry.Company.Name, Category: r.Entry.Category, Status: r.Summary.StatusAt(r.Entry.ChangedAt, now),
		DueAt: reasons[0].At, Reasons: reasons, LastCheckedAt: r.Summary.LastCheckedAt,
	}, true
}
