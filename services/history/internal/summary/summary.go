// Package summary tells what all events of one listing come to. It is a pure function of the set of events: neither the clock
// nor the order of their arrival plays a part, so a late or repeated append can always be computed anew.
package summary

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
)

// unreachableFor is how long an application link must have been unreachable, without another outcome in between, before it
// conflicts with a review: a shorter outage says little about the platform.
const unreachableFor = 24 * time.Hour

// unevidenced is the note of the doubt that a review recorded without evidence raises.
const unevidenced = "recorded as verified without a source or without facts"

// Of sums up the events of slug, given in any order. Sequence is left to the store.
//
// Events count in the order of checkedAt. At the same instant the more cautious outcome counts as the later one (the order of
// severity below), so that a success never hides a doubt of the same moment. A review that was recorded as verified without a
// source or facts, before both were required, counts as needs-review.
func Of(slug string, events []api.VerificationEvent) api.Summary {
	s := api.Summary{Slug: slug, HistoryCount: len(events)}
	reviews, links := split(events)

	s.ReviewCount = len(reviews)
	known := "" // the facts carried so far: a review without facts neither changes them nor forgets them
	for _, r := range reviews {
		s.LastCheckedAt, s.LastOutcome = &r.CheckedAt, r.Outcome
		if r.Outcome == api.OutcomeVerified {
			s.FreshUntil = new(r.CheckedAt.Add(api.FreshnessWindow))
		}
		if r.Facts == nil {
			continue
		}
		s.Facts = r.Facts
		if r.facts != known && known != "" { // the first facts are no change: nothing was recorded before
			s.ChangeCount++
		}
		known = r.facts
	}
	if len(reviews) > 0 {
		s.FirstCheckedAt = &reviews[0].CheckedAt
		against := conflict(*s.LastCheckedAt, links)
		if against != nil {
			s.ConflictAt = &against.CheckedAt
		}
		if s.LastOutcome != api.OutcomeVerified {
			against = &reviews[len(reviews)-1]
		}
		s.Doubt = doubt(against)
	}
	if len(links) > 0 {
		last := links[len(links)-1]
		s.ApplicationLink = &api.ApplicationLink{Outcome: last.Outcome, CheckedAt: last.CheckedAt}
	}
	return s
}

// doubt is what a summary tells of the event that puts its record in doubt; nil stays nil.
func doubt(e *checked) *api.Doubt {
	if e == nil {
		return nil
	}
	return &api.Doubt{EventID: e.ID, CheckType: e.CheckType, Outcome: e.Outcome, CheckedAt: e.CheckedAt, Note: e.Note}
}

// conflict is the earliest link check that conflicts with a review made at the instant reviewed, nil if none does. Of checks
// that found the link unreachable it is the first to come unreachableFor after the first of an unbroken row; the whole row is
// later than the review, because a curator who looked in between has seen more than a link check does.
func conflict(reviewed time.Time, links []checked) *checked {
	var down *time.Time // the first of the present row
	for i := range links {
		l := &links[i]
		if !l.CheckedAt.After(reviewed) {
			continue
		}
		switch l.Outcome {
		case api.OutcomeClosed, api.OutcomeNeedsReview:
			return l
		case api.OutcomeUnreachable:
			if down == nil {
				down = &l.CheckedAt
			}
			if l.CheckedAt.Sub(*down) >= unreachableFor {
				return l
			}
		default:
			down = nil
		}
	}
	return nil
}

// checked is an event with its facts as text, for comparison; empty where it carries none.
type checked struct {
	api.VerificationEvent
	facts string
}

// severity orders outcomes at the same instant.
var severity = map[api.Outcome]int{
	api.OutcomeVerified: 0, api.OutcomeReachable: 1, api.OutcomeBlocked: 2, api.OutcomeUnreachable: 3,
	api.OutcomeClosed: 4, api.OutcomeNeedsReview: 5,
}

// split orders the events of each kind, completely: the id is the last word.
func split(events []api.VerificationEvent) (reviews, links []checked) {
	for _, e := range events {
		if e.CheckType == api.LinkCheck {
			links = append(links, checked{VerificationEvent: e})
			continue
		}
		if e.Outcome == api.OutcomeVerified && !e.Evidenced() {
			e.Outcome, e.Note = api.OutcomeNeedsReview, unevidenced
			if e.Facts != nil && !e.Facts.Known() { // facts left out were recorded as unknown; they erase nothing
				e.Facts = nil
			}
		}
		c := checked{VerificationEvent: e}
		if e.Facts != nil {
			text, _ := json.Marshal(e.Facts) // facts hold nothing that cannot be encoded
			c.facts = string(text)
		}
		reviews = append(reviews, c)
	}
	order := func(a, b checked) int {
		return cmp.Or(a.CheckedAt.Compare(b.CheckedAt), cmp.Compare(severity[a.Outcome], severity[b.Outcome]), cmp.Compare(a.facts, b.facts),
			cmp.Compare(a.Note, b.Note), cmp.Compare(a.ID, b.ID))
	}
	slices.SortFunc(reviews, order)
	slices.SortFunc(links, order)
	return reviews, links
}
