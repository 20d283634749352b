package event_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/services/history/internal/event"
)

var day0 = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

func at(hours float64) time.Time { return day0.Add(time.Duration(hours * float64(time.Hour))) }

func review(hours float64, outcome api.Outcome, facts *api.Facts) api.RecordedEvent {
	return recorded(api.VerificationEvent{Slug: "a", CheckedAt: at(hours), CheckType: api.FactualReview,
		Outcome: outcome, Facts: facts,
		SourceURLs: []string{apitest.Source}})
}

func verified(hours float64) api.RecordedEvent { return recorded(apitest.Verified("a", at(hours))) }

func recorded(e api.VerificationEvent) api.RecordedEvent {
	return api.RecordedEvent{VerificationEvent: e}
}

func link(hours float64, outcome api.Outcome) api.RecordedEvent {
	return recorded(api.VerificationEvent{Slug: "a", CheckedAt: at(hours), CheckType: api.LinkCheck, Outcome: outcome,
		SourceURLs: []string{}})
}

// says is a link check of a page that says text, which claims a status.
func says(hours float64, text string, status api.ApplicationStatus) api.RecordedEvent {
	e := link(hours, api.OutcomeNeedsReview)
	e.Evidence = &api.Evidence{Cause: &api.Cause{Text: text, Status: status}}
	return e
}

func facts(remote bool) *api.Facts {
	f := api.UnknownFacts()
	f.Remote = &remote
	return &f
}

func used(hours float64) []api.SourceCheck {
	return []api.SourceCheck{{URL: apitest.Source, CheckedAt: at(hours)}}
}

func TestSummaryNamesFactsWithoutAQuote(t *testing.T) {
	e := review(0, api.OutcomeVerified, facts(true))
	e.Facts.Languages = []string{"en"}
	require.Equal(t, []string{"remote", "languages"}, event.StateOf("a", []api.RecordedEvent{e}).Unquoted)
	e.Evidence = &api.Evidence{Quotes: []api.Quote{{Fact: "remote", SourceURL: apitest.Source, Exact: "from home"}}}
	require.Equal(t, []string{"languages"}, event.StateOf("a", []api.RecordedEvent{e}).Unquoted)
	require.Equal(t, []string{"languages"}, event.StateOf("a",
		[]api.RecordedEvent{e, review(1, api.OutcomeNeedsReview, nil)}).Unquoted)
}

func TestSourcesFollowReviews(t *testing.T) {
	using := func(hours float64, outcome api.Outcome, gone []string, urls ...string) api.RecordedEvent {
		e := review(hours, outcome, facts(true))
		e.SourceURLs = urls
		if gone != nil {
			e.Evidence = &api.Evidence{Gone: gone, Unopened: []string{"unopened"}}
		}
		return e
	}
	s := event.StateOf("a", []api.RecordedEvent{
		using(0, api.OutcomeVerified, nil, "pay", "faq", "unopened", "old"),
		using(24, api.OutcomeVerified, []string{"faq", "never used"}, "pay", "new"),
		using(48, api.OutcomeNeedsReview, []string{"old"}, "pay", "doubtful"),
	})
	require.Equal(t, []api.SourceCheck{{URL: "pay", CheckedAt: at(24)}, {URL: "new", CheckedAt: at(24)},
		{URL: "unopened", CheckedAt: at(0)}}, s.Sources,
		"only a successful review dates its sources, and one that could not be opened keeps its date")
	require.Equal(t, []api.SourceCheck{{URL: "old", CheckedAt: at(48)}, {URL: "faq", CheckedAt: at(24)},
		{URL: "never used", CheckedAt: at(24)}}, s.Gone)

	s = event.StateOf("a", []api.RecordedEvent{using(0, api.OutcomeVerified, []string{"faq"}, "pay"),
		using(1, api.OutcomeVerified, nil, "faq")})
	require.Empty(t, s.Gone, "a page that is used again is back")
}

func TestSummaryOfEvents(t *testing.T) {
	yes, no, remote := facts(true), facts(false), []string{"remote"}
	for _, c := range []struct {
		name   string
		events []api.RecordedEvent
		want   api.Summary
	}{
		{"no events", nil, api.Summary{Slug: "a"}},
		{"a link check alone", []api.RecordedEvent{link(0, api.OutcomeClosed)},
			api.Summary{Slug: "a", HistoryCount: 1,
				ApplicationLink: &api.ApplicationLink{Outcome: api.OutcomeClosed, CheckedAt: at(0)}}},
		{"a review", []api.RecordedEvent{review(0, api.OutcomeVerified, yes)},
			api.Summary{Slug: "a", HistoryCount: 1, ReviewCount: 1, FirstCheckedAt: new(at(0)),
				LastCheckedAt: new(at(0)),
				LastOutcome:   api.OutcomeVerified, FreshUntil: new(at(14 * 24)), Facts: yes, Unquoted: remote,
				Sources: used(0)}},
		{"a later doubt keeps the freshness of an earlier success",
			[]api.RecordedEvent{review(0, api.OutcomeVerified, yes), review(48, api.OutcomeNeedsReview, nil)},
			api.Summary{Slug: "a", HistoryCount: 2, ReviewCount: 2, FirstCheckedAt: new(at(0)),
				LastCheckedAt: new(at(48)),
				LastOutcome:   api.OutcomeNeedsReview, FreshUntil: new(at(14 * 24)), Facts: yes, Unquoted: remote,
				Sources: used(0),
				Doubt:   &api.Doubt{CheckType: api.FactualReview, Outcome: api.OutcomeNeedsReview, CheckedAt: at(48)}}},
		{"an older review that arrives late",
			[]api.RecordedEvent{review(48, api.OutcomeVerified, yes), review(0, api.OutcomeClosed, no)},
			api.Summary{Slug: "a", HistoryCount: 2, ReviewCount: 2, ChangeCount: 1, FirstCheckedAt: new(at(0)),
				LastCheckedAt: new(at(48)),
				LastOutcome:   api.OutcomeVerified, FreshUntil: new(at(16 * 24)), Facts: yes, Unquoted: remote,
				Sources: used(48)}},
		{"at the same time the doubt counts",
			[]api.RecordedEvent{review(0, api.OutcomeNeedsReview, no), review(0, api.OutcomeVerified, yes)},
			api.Summary{Slug: "a", HistoryCount: 2, ReviewCount: 2, ChangeCount: 1, FirstCheckedAt: new(at(0)),
				LastCheckedAt: new(at(0)),
				LastOutcome:   api.OutcomeNeedsReview, FreshUntil: new(at(14 * 24)), Facts: no, Unquoted: remote,
				Sources: used(0),
				Doubt:   &api.Doubt{CheckType: api.FactualReview, Outcome: api.OutcomeNeedsReview, CheckedAt: at(0)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(c.want, event.StateOf("a", c.events).Summary))
		})
	}
}

func TestConflict(t *testing.T) {
	verified := verified(0)
	for _, c := range []struct {
		name   string
		events []api.RecordedEvent
		want   *time.Time
	}{
		{"closed", []api.RecordedEvent{verified, link(1, api.OutcomeClosed)}, new(at(1))},
		{"needs review", []api.RecordedEvent{verified, link(1, api.OutcomeNeedsReview)}, new(at(1))},
		{"the first of several", []api.RecordedEvent{verified, link(9, api.OutcomeClosed),
			link(5, api.OutcomeNeedsReview)}, new(at(5))},
		{"remains after the link recovers", []api.RecordedEvent{verified, link(1, api.OutcomeClosed),
			link(2, api.OutcomeReachable)}, new(at(1))},
		{"at the time of the review", []api.RecordedEvent{verified, link(0, api.OutcomeClosed)}, nil},
		{"before the review", []api.RecordedEvent{verified, link(-1, api.OutcomeClosed)}, nil},
		{"ended by a new review", []api.RecordedEvent{verified, link(1, api.OutcomeClosed),
			recorded(apitest.Verified("a", at(2)))}, nil},
		{"without a review", []api.RecordedEvent{link(1, api.OutcomeClosed)}, nil},
		{"blocked for weeks", []api.RecordedEvent{verified, link(1, api.OutcomeBlocked), link(200, api.OutcomeBlocked)},
			nil},
		{"unreachable once", []api.RecordedEvent{verified, link(1, api.OutcomeUnreachable)}, nil},
		{"unreachable twice, a day apart", []api.RecordedEvent{verified, link(1, api.OutcomeUnreachable),
			link(25, api.OutcomeUnreachable)}, new(at(25))},
		{"unreachable twice, not quite a day apart",
			[]api.RecordedEvent{verified, link(1, api.OutcomeUnreachable), link(24.999, api.OutcomeUnreachable)}, nil},
		{"unreachable several times within a day", []api.RecordedEvent{verified, link(1, api.OutcomeUnreachable),
			link(13, api.OutcomeUnreachable), link(25, api.OutcomeUnreachable), link(49, api.OutcomeUnreachable)},
			new(at(25))},
		{"unreachable, reached in between", []api.RecordedEvent{verified, link(1, api.OutcomeUnreachable),
			link(13, api.OutcomeReachable),
			link(26, api.OutcomeUnreachable)}, nil},
		{"unreachable, blocked in between", []api.RecordedEvent{verified, link(1, api.OutcomeUnreachable),
			link(13, api.OutcomeBlocked),
			link(26, api.OutcomeUnreachable), link(50, api.OutcomeUnreachable)}, new(at(50))},
		{"unreachable before and after the review", []api.RecordedEvent{link(-20, api.OutcomeUnreachable), verified,
			link(4, api.OutcomeUnreachable)}, nil},
		{"unreachable long before and twice after", []api.RecordedEvent{link(-20, api.OutcomeUnreachable), verified,
			link(4, api.OutcomeUnreachable), link(28, api.OutcomeUnreachable)}, new(at(28))},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := event.StateOf("a", c.events)
			require.Empty(t, cmp.Diff(c.want, s.ConflictAt))
			require.Equal(t, s.LastCheckedAt != nil && !s.Undisputed(nil), s.Doubt != nil,
				"a disputed record must have a doubt")
			if s.ConflictAt != nil {
				require.Equal(t, *s.ConflictAt, s.Doubt.CheckedAt)
				require.Equal(t, api.LinkCheck, s.Doubt.CheckType)
			}
		})
	}
}

func TestChangeCount(t *testing.T) {
	yes, no := facts(true), facts(false)
	ok, doubtful := api.OutcomeVerified, api.OutcomeNeedsReview
	for _, c := range []struct {
		name   string
		events []api.RecordedEvent
		want   int
	}{
		{"the first facts", []api.RecordedEvent{review(0, api.OutcomeClosed, nil), review(1, ok, yes)}, 0},
		{"the same facts", []api.RecordedEvent{review(0, ok, yes), review(1, ok, facts(true))}, 0},
		{"other facts", []api.RecordedEvent{review(0, ok, yes), review(1, ok, no)}, 1},
		{"changed and restored", []api.RecordedEvent{review(0, ok, yes), review(1, ok, no), review(2, ok, yes)}, 2},
		{"omitted in between", []api.RecordedEvent{review(0, ok, yes), review(1, doubtful, nil), review(2, ok, yes)},
			0},
		{"omitted, then other facts", []api.RecordedEvent{review(0, ok, yes), review(1, doubtful, nil),
			review(2, ok, no)}, 1},
		{"closed in between", []api.RecordedEvent{review(0, ok, yes), review(1, api.OutcomeClosed, nil),
			review(2, ok, yes)}, 2},
		{"closed twice", []api.RecordedEvent{review(0, ok, yes), review(1, api.OutcomeClosed, nil),
			review(2, api.OutcomeClosed, nil)}, 1},
		{"a middle review that arrives late", []api.RecordedEvent{review(0, ok, yes), review(2, ok, yes),
			review(1, ok, no)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, event.StateOf("a", c.events).ChangeCount)
		})
	}
}

func TestRecordBecomesStaleAfterFourteenDays(t *testing.T) {
	s := event.StateOf("a", []api.RecordedEvent{verified(0), link(13*24, api.OutcomeReachable)})
	end := at(14 * 24)
	require.Equal(t, &end, s.FreshUntil)
	require.Equal(t, api.Verified, s.StatusAt(nil, end))
	require.Equal(t, api.Stale, s.StatusAt(nil, end.Add(time.Microsecond)))
}

// Events recorded before evidence was required are never changed, but they no longer count as
// verified.
func TestVerifiedReviewWithoutEvidenceCountsAsNeedsReview(t *testing.T) {
	unknown := api.UnknownFacts()
	unsourced := apitest.Verified("a", at(24))
	unsourced.SourceURLs, unsourced.ID = []string{}, "thin"
	for name, thin := range map[string]api.VerificationEvent{
		"no source": unsourced,
		"no facts": {ID: "thin", Slug: "a", CheckedAt: at(24), CheckType: api.FactualReview,
			Outcome: api.OutcomeVerified, SourceURLs: []string{apitest.Source}},
		"empty facts": {ID: "thin", Slug: "a", CheckedAt: at(24), CheckType: api.FactualReview,
			Outcome: api.OutcomeVerified, SourceURLs: []string{apitest.Source}, Facts: &unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := event.StateOf("a", []api.RecordedEvent{verified(0), recorded(thin)})
			require.Equal(t, api.NeedsReview, s.StatusAt(nil, at(25)))
			require.Equal(t, new(at(24)), s.LastCheckedAt, "the thin review is the latest review")
			require.Equal(t, 2, s.ReviewCount)
			require.Equal(t, new(at(14*24)), s.FreshUntil, "the thin review is not a success")
			require.Equal(t, facts(true), s.Facts, "missing facts must not erase known facts")
			require.Zero(t, s.ChangeCount)
			require.Equal(t, &api.Doubt{EventID: "thin", CheckType: api.FactualReview, Outcome: api.OutcomeNeedsReview,
				CheckedAt: at(24),
				Note:      "recorded as verified without a source or without facts"}, s.Doubt)

			s = event.StateOf("a", []api.RecordedEvent{verified(24), recorded(thin)})
			require.Equal(t, api.NeedsReview, s.StatusAt(nil, at(25)), "at the same time the doubt counts")
			s = event.StateOf("a", []api.RecordedEvent{recorded(thin), verified(48)})
			require.Equal(t, api.Verified, s.StatusAt(nil, at(49)))
		})
	}
}

// history generates events on a coarse clock, so that equal times and gaps of days both occur.
var history = rapid.Map(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) api.RecordedEvent {
	hours := float64(rapid.IntRange(0, 20).Draw(t, "slot") * 6)
	if rapid.Bool().Draw(t, "review") {
		var known *api.Facts
		if rapid.Bool().Draw(t, "with facts") {
			known = facts(rapid.Bool().Draw(t, "remote"))
		}
		e := review(hours, rapid.SampledFrom(api.Outcomes[api.FactualReview]).Draw(t, "outcome"), known)
		pages := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"https://a.example", "https://b.example",
			"https://c.example"}), rapid.ID[string])
		e.SourceURLs = pages.Draw(t, "sources")
		if gone := pages.Draw(t, "gone"); len(gone) > 0 {
			e.Evidence = &api.Evidence{Gone: gone}
		}
		return e
	}
	if rapid.Bool().Draw(t, "cause") {
		return says(hours, rapid.SampledFrom([]string{"full", "closed"}).Draw(t, "text"), api.ApplicationClosed)
	}
	return link(hours, rapid.SampledFrom(api.Outcomes[api.LinkCheck]).Draw(t, "outcome"))
}), 0, 30), func(events []api.RecordedEvent) []api.RecordedEvent {
	for i := range events {
		events[i].ID = fmt.Sprintf("e-%02d", i)
	}
	return events
})

// undoing returns a history in which some events undo earlier ones, and its events that are in
// effect.
func undoing(t *rapid.T) (events, effective []api.RecordedEvent) {
	events = history.Draw(t, "events")
	undone := map[string]bool{}
	for i := range events {
		if e := &events[i]; i > 0 && e.CheckType == api.FactualReview && rapid.Bool().Draw(t, "undoes") {
			e.Evidence = &api.Evidence{Undoes: events[rapid.IntRange(0, i-1).Draw(t, "target")].ID}
		}
	}
	for _, e := range slices.Backward(events) { // what undoes an event comes after it
		undoes := e.Evidence != nil && e.Evidence.Undoes != ""
		if undoes && !undone[e.ID] {
			undone[e.Evidence.Undoes] = true
		}
		if e.CheckType == api.LinkCheck || !undoes && !undone[e.ID] {
			effective = append(effective, e)
		}
	}
	return events, effective
}

func TestUndoneReviewsHaveNoEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events, effective := undoing(t)
		got, want := event.StateOf("a", rapid.Permutation(events).Draw(t, "shuffled")), event.StateOf("a", effective)
		want.HistoryCount = len(events)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestUndo(t *testing.T) {
	named := func(id string, e api.RecordedEvent) api.RecordedEvent {
		e.ID = id
		return e
	}
	undo := func(id, of string, hours float64) api.RecordedEvent {
		e := named(id, review(hours, api.OutcomeNeedsReview, nil))
		e.Evidence = &api.Evidence{Undoes: of}
		return e
	}
	first, second := named("first", review(0, api.OutcomeVerified, facts(true))),
		named("second", review(2, api.OutcomeClosed, nil))
	second.Evidence = &api.Evidence{Gone: []string{apitest.Source}}
	for _, c := range []struct {
		name   string
		events []api.RecordedEvent
		status api.VerificationStatus
		latest string
	}{
		{"the latest review", []api.RecordedEvent{first, second, undo("u", "second", 3)}, api.Verified, "first"},
		{"an undo of an undo", []api.RecordedEvent{first, second, undo("u", "second", 3), undo("v", "u", 4),
			undo("w", "v", 5)}, api.Verified, "first"},
		{"one of two undos", []api.RecordedEvent{first, second, undo("u", "second", 3), undo("v", "second", 4),
			undo("w", "v", 5)}, api.Verified, "first"},
		{"an unknown event", []api.RecordedEvent{first, undo("u", "other", 3)}, api.Verified, "first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := event.StateOf("a", c.events)
			require.Equal(t, c.status, s.StatusAt(nil, at(6)))
			require.Equal(t, c.latest, s.LatestReview)
			require.Equal(t, len(c.events), s.HistoryCount, "the history keeps both")
			if c.latest == "first" {
				require.Equal(t, facts(true), s.Facts)
				require.Equal(t, used(0), s.Sources)
				require.Empty(t, s.Gone)
				require.Zero(t, s.ChangeCount)
			}
		})
	}
}

func TestClosed(t *testing.T) {
	yes, closedFacts := facts(true), facts(true)
	closedFacts.ApplicationStatus = api.ApplicationClosed
	closed, doubtful := review(1, api.OutcomeClosed, nil), review(2, api.OutcomeNeedsReview, nil)
	for _, c := range []struct {
		name   string
		events []api.RecordedEvent
		facts  *api.Facts
		closed bool
	}{
		{"without facts before", []api.RecordedEvent{closed}, nil, true},
		{"and then in doubt", []api.RecordedEvent{closed, doubtful}, nil, true},
		{"with facts before", []api.RecordedEvent{review(0, api.OutcomeVerified, yes), closed}, closedFacts, false},
		{"with facts before, and then in doubt", []api.RecordedEvent{review(0, api.OutcomeVerified, yes), closed,
			doubtful}, closedFacts, false},
		{"with facts after", []api.RecordedEvent{closed, review(2, api.OutcomeVerified, yes)}, yes, false},
		{"with facts of its own", []api.RecordedEvent{review(0, api.OutcomeClosed, yes)}, closedFacts, false},
		{"at the same time as facts", []api.RecordedEvent{review(1, api.OutcomeVerified, yes), closed}, closedFacts,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := event.StateOf("a", c.events)
			require.Equal(t, c.facts, s.Facts)
			require.Equal(t, c.closed, s.Closed)
		})
	}
}

func TestSummaryIsIndependentOfArrivalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t, "events")
		shuffled := rapid.Permutation(events).Draw(t, "shuffled")
		if diff := cmp.Diff(event.StateOf("a", events), event.StateOf("a", shuffled)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLinkChecksDoNotChangeReviewFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := history.Draw(t, "events")
		var reviews []api.RecordedEvent
		for _, e := range events {
			if e.CheckType == api.FactualReview {
				reviews = append(reviews, e)
			}
		}
		with, without := event.StateOf("a", events), event.StateOf("a", reviews)
		if with.HistoryCount != len(events) || with.ReviewCount != len(reviews) {
			t.Fatalf("got %d events and %d reviews, want %d and %d", with.HistoryCount, with.ReviewCount, len(events),
				len(reviews))
		}
		with.HistoryCount, with.ApplicationLink, with.ConflictAt = without.HistoryCount, nil, nil
		if with.Doubt != nil && with.Doubt.CheckType == api.LinkCheck {
			with.Doubt = nil
		}
		if diff := cmp.Diff(without, with); diff != "" {
			t.Fatal("link checks changed more than the link, the event count, the conflict and its doubt: ", diff)
		}
	})
}

func TestReviewAnswersCauseOfLinkChecks(t *testing.T) {
	const full, shut = "Registration is full.", "Applications are closed."
	statused := func(hours float64, status api.ApplicationStatus) api.RecordedEvent {
		e := verified(hours)
		e.Facts.ApplicationStatus = status
		return e
	}
	closed, waitlist, open := api.ApplicationClosed, api.ApplicationWaitlist, api.ApplicationOpen
	for name, c := range map[string]struct {
		events []api.RecordedEvent
		want   *time.Time
	}{
		"before the review": {[]api.RecordedEvent{says(0, shut, closed), statused(1, open), says(24, shut, closed),
			says(48, shut, closed)}, nil},
		"first after it": {[]api.RecordedEvent{statused(0, open), says(1, shut, closed)}, new(at(1))},
		"another sentence": {[]api.RecordedEvent{says(0, shut, closed), statused(1, open), says(24, full, closed),
			says(48, shut, closed)}, new(at(24))},
		"two sentences": {[]api.RecordedEvent{says(0, shut, closed), says(1, full, closed), statused(2, open),
			says(24, shut, closed), says(48, full, closed)}, nil},
		"another page": {[]api.RecordedEvent{says(0, shut, closed), statused(1, open),
			link(24, api.OutcomeClosed)}, new(at(24))},
		"no cause": {[]api.RecordedEvent{link(0, api.OutcomeNeedsReview), statused(1, open),
			link(24, api.OutcomeNeedsReview)}, new(at(24))},
		"two reviews": {[]api.RecordedEvent{says(0, shut, closed), statused(1, open), statused(2, open),
			says(24, shut, closed)}, nil},
		"a review between outages": {[]api.RecordedEvent{says(0, shut, closed), statused(1, open),
			link(2, api.OutcomeBlocked), statused(3, open),
			says(24, shut, closed)}, nil},
		"answered, gone, reviewed, said again": {[]api.RecordedEvent{says(0, shut, closed), statused(1, open),
			link(24, api.OutcomeReachable),
			statused(25, open), says(48, shut, closed)}, new(at(48))},
		"answered, gone, said again": {[]api.RecordedEvent{says(0, shut, closed), statused(1, open),
			link(24, api.OutcomeReachable),
			says(48, shut, closed)}, nil},
		"read once in a while": {[]api.RecordedEvent{says(0, shut, closed),
			link(1, api.OutcomeReachable), statused(2, open), says(24, shut, closed)}, nil},
		"waitlist as recorded": {[]api.RecordedEvent{statused(0, waitlist), says(1, full, waitlist),
			says(24, shut, waitlist)}, nil},
		"closed as recorded": {[]api.RecordedEvent{statused(0, closed), says(1, shut, closed)}, nil},
		"waitlist, recorded as open": {[]api.RecordedEvent{statused(0, open), says(1, full, waitlist)},
			new(at(1))},
		"closed, recorded as waitlist": {[]api.RecordedEvent{statused(0, waitlist), says(1, full, closed)},
			new(at(1))},
		"leads elsewhere, no status recorded": {[]api.RecordedEvent{statused(0, api.ApplicationUnknown),
			says(1, "It leads to another site, b.example.", "")}, new(at(1))},
	} {
		t.Run(name, func(t *testing.T) {
			s := event.StateOf("a", c.events)
			require.Empty(t, cmp.Diff(c.want, s.ConflictAt))
			require.Equal(t, c.want == nil, s.Undisputed(nil))
		})
	}
}

func TestSummaryNamesItsLastEvent(t *testing.T) {
	record := event.Record{Sequence: 7, ID: "first", Slug: "a", Evidence: "{}", CheckType: api.LinkCheck,
		Outcome: api.OutcomeClosed, SourceURLs: "[]"}
	last := record
	last.Sequence, last.ID = 9, "last"
	s, err := event.StateOfRecords("a", []event.Record{last, record})
	require.NoError(t, err)
	require.Equal(t, []any{"a", 2, int64(9), "last"}, []any{s.Slug, s.HistoryCount, s.Sequence, s.LastEventID})

	last.SourceURLs = "invalid"
	_, err = event.StateOfRecords("a", []event.Record{record, last})
	require.Error(t, err)
}
