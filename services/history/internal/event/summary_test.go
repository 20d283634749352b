package event_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	yes, no := facts(true), facts(false)
	reviewed := api.Summary{Slug: "a", HistoryCount: 1, ReviewCount: 1, FirstCheckedAt: new(at(0)),
		LastCheckedAt: new(at(0)), LastOutcome: api.OutcomeVerified, FreshUntil: new(at(14 * 24)), Facts: yes,
		Unquoted: []string{"remote"}, Sources: used(0)}
	twice := reviewed
	twice.HistoryCount, twice.ReviewCount = 2, 2
	doubted := func(s api.Summary, hours float64) api.Summary {
		s.LastCheckedAt, s.LastOutcome = new(at(hours)), api.OutcomeNeedsReview
		s.Doubt = &api.Doubt{CheckType: api.FactualReview, Outcome: api.OutcomeNeedsReview, CheckedAt: at(hours)}
		return s
	}
	late, tied := twice, doubted(twice, 0)
	late.ChangeCount, late.LastCheckedAt, late.FreshUntil, late.Sources = 1, new(at(48)), new(at(16*24)), used(48)
	tied.ChangeCount, tied.Facts = 1, no
	for _, c := range []struct {
		name   string
		events []api.RecordedEvent
		want   api.Summary
	}{
		{"no events", nil, api.Summary{Slug: "a"}},
		{"a link check alone", []api.RecordedEvent{link(0, api.OutcomeClosed)},
			api.Summary{Slug: "a", HistoryCount: 1,
				ApplicationLink: &api.ApplicationLink{Outcome: api.OutcomeClosed, CheckedAt: at(0)}}},
		{"a review", []api.RecordedEvent{review(0, api.OutcomeVerified, yes)}, reviewed},
		{"a later doubt keeps the freshness of an earlier success",
			[]api.RecordedEvent{review(0, api.OutcomeVerified, yes), review(48, api.OutcomeNeedsReview, nil)},
			doubted(twice, 48)},
		{"an older review that arrives late",
			[]api.RecordedEvent{review(48, api.OutcomeVerified, yes), review(0, api.OutcomeClosed, no)}, late},
		{"at the same time the doubt counts",
			[]api.RecordedEvent{review(0, api.OutcomeNeedsReview, no), review(0, api.OutcomeVerified, yes)}, tied},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(c.want, event.StateOf("a", c.events).Summary))
		})
	}
}

// parse returns a history in a short form: each event is a kind and the hours since day0. Reviews
// are verified, yes and no (verified with facts that say so), closing and doubt; others are the
// outcomes of link checks. A part after a colon is the application status of a review, the facts of
// a closing one, or the sentence and the status that a page says.
func parse(text string) (all []api.RecordedEvent) {
	for word := range strings.FieldsSeq(text) {
		kind, time, _ := strings.Cut(word, "@")
		hours, err := strconv.ParseFloat(time, 64)
		if err != nil {
			panic(err)
		}
		kind, detail, detailed := strings.Cut(kind, ":")
		var e api.RecordedEvent
		switch kind {
		case "verified":
			if e = verified(hours); detailed {
				e.Facts.ApplicationStatus = api.ApplicationStatus(detail)
			}
		case "yes", "no":
			e = review(hours, api.OutcomeVerified, facts(kind == "yes"))
		case "closing":
			if e = review(hours, api.OutcomeClosed, nil); detailed {
				e.Facts = facts(detail == "yes")
			}
		case "doubt":
			e = review(hours, api.OutcomeNeedsReview, nil)
		case "says":
			sentence, status, _ := strings.Cut(detail, ":")
			e = says(hours, sentence, api.ApplicationStatus(status))
		default:
			e = link(hours, api.Outcome(kind))
		}
		all = append(all, e)
	}
	return all
}

const none = -1000 // hours of no conflict

func TestConflict(t *testing.T) {
	for text, want := range map[string]float64{
		"verified@0 closed@1":                         1,
		"verified@0 needs-review@1":                   1,
		"verified@0 closed@9 needs-review@5":          5,
		"verified@0 closed@1 reachable@2":             1, // a link that works again ends no conflict
		"verified@0 closed@0":                         none,
		"verified@0 closed@-1":                        none,
		"verified@0 closed@1 verified@2":              none,
		"closed@1":                                    none,
		"verified@0 blocked@1 blocked@200":            none,
		"verified@0 unreachable@1":                    none,
		"verified@0 unreachable@1 unreachable@25":     25, // a day apart
		"verified@0 unreachable@1 unreachable@24.999": none,
		"unreachable@-20 verified@0 unreachable@4":    none,
		"verified@0 unreachable@1 unreachable@13 unreachable@25 unreachable@49": 25,
		"verified@0 unreachable@1 reachable@13 unreachable@26":                  none,
		"verified@0 unreachable@1 blocked@13 unreachable@26 unreachable@50":     50,
		"unreachable@-20 verified@0 unreachable@4 unreachable@28":               28,
		// A review answers the causes that its author was shown, and those that say what it recorded.
		"says:shut:closed@0 verified:open@1 says:shut:closed@24 says:shut:closed@48":                    none,
		"verified:open@0 says:shut:closed@1":                                                            1,
		"says:shut:closed@0 verified:open@1 says:full:closed@24 says:shut:closed@48":                    24,
		"says:shut:closed@0 says:full:closed@1 verified:open@2 says:shut:closed@24 says:full:closed@48": none,
		"says:shut:closed@0 verified:open@1 closed@24":                                                  24,
		"needs-review@0 verified:open@1 needs-review@24":                                                24, // without causes
		"says:shut:closed@0 verified:open@1 verified:open@2 says:shut:closed@24":                        none,
		"says:shut:closed@0 verified:open@1 blocked@2 verified:open@3 says:shut:closed@24":              none,
		"says:shut:closed@0 verified:open@1 reachable@24 verified:open@25 says:shut:closed@48":          48,
		"says:shut:closed@0 verified:open@1 reachable@24 says:shut:closed@48":                           none,
		"says:shut:closed@0 reachable@1 verified:open@2 says:shut:closed@24":                            none,
		"verified:waitlist@0 says:full:waitlist@1 says:shut:waitlist@24":                                none,
		"verified:closed@0 says:shut:closed@1":                                                          none,
		"verified:open@0 says:full:waitlist@1":                                                          1,
		"verified:waitlist@0 says:full:closed@1":                                                        1,
		"verified:unknown@0 says:elsewhere:@1":                                                          1,
	} {
		t.Run(text, func(t *testing.T) {
			s := event.StateOf("a", parse(text))
			if want == none {
				require.Nil(t, s.ConflictAt)
			} else {
				require.Equal(t, new(at(want)), s.ConflictAt)
				require.Equal(t, at(want), s.Doubt.CheckedAt)
				require.Equal(t, api.LinkCheck, s.Doubt.CheckType)
			}
			require.Equal(t, s.LastCheckedAt != nil && !s.Undisputed(nil), s.Doubt != nil,
				"a disputed record must have a doubt")
		})
	}
}

func TestChangeCount(t *testing.T) {
	for text, want := range map[string]int{
		"closing@0 yes@1": 0, // the first facts
		"yes@0 yes@1":     0, "yes@0 no@1": 1, "yes@0 no@1 yes@2": 2, "yes@0 doubt@1 yes@2": 0, "yes@0 doubt@1 no@2": 1,
		"yes@0 closing@1 yes@2": 2, "yes@0 closing@1 closing@2": 1,
		"yes@0 yes@2 no@1": 2, // arrives late
	} {
		require.Equal(t, want, event.StateOf("a", parse(text)).ChangeCount, text)
	}
}

// Events recorded before evidence was required are never changed, but they no longer count as
// verified.
func TestVerifiedReviewWithoutEvidenceCountsAsNeedsReview(t *testing.T) {
	for name, change := range map[string]func(*api.VerificationEvent){
		"no source":   func(e *api.VerificationEvent) { e.SourceURLs = []string{} },
		"no facts":    func(e *api.VerificationEvent) { e.Facts = nil },
		"empty facts": func(e *api.VerificationEvent) { e.Facts = new(api.UnknownFacts()) },
	} {
		t.Run(name, func(t *testing.T) {
			thin := verified(24)
			thin.ID = "thin"
			change(&thin.VerificationEvent)
			s := event.StateOf("a", []api.RecordedEvent{verified(0), thin})
			require.Equal(t, api.NeedsReview, s.StatusAt(nil, at(25)))
			require.Equal(t, new(at(24)), s.LastCheckedAt, "the thin review is the latest review")
			require.Equal(t, 2, s.ReviewCount)
			require.Equal(t, new(at(14*24)), s.FreshUntil, "the thin review is not a success")
			require.Equal(t, facts(true), s.Facts, "missing facts must not erase known facts")
			require.Zero(t, s.ChangeCount)
			require.Equal(t, &api.Doubt{EventID: "thin", CheckType: api.FactualReview, Outcome: api.OutcomeNeedsReview,
				CheckedAt: at(24), Note: "recorded as verified without a source or without facts"}, s.Doubt)

			s = event.StateOf("a", []api.RecordedEvent{verified(24), thin})
			require.Equal(t, api.NeedsReview, s.StatusAt(nil, at(25)), "at the same time the doubt counts")
			s = event.StateOf("a", []api.RecordedEvent{thin, verified(48)})
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

// TestUndo has the ids of reviews, each with the one that it undoes, and those that are in effect.
func TestUndo(t *testing.T) {
	for reviews, want := range map[string]string{
		"a b c>b": "a", "a b c>b d>c": "a b", "a b c>b d>c e>d": "a", "a b c>b d>b e>d": "a", "a b>unknown": "a",
	} {
		var events []api.RecordedEvent
		for word := range strings.FieldsSeq(reviews) {
			e := verified(0)
			var undone string
			e.ID, undone, _ = strings.Cut(word, ">")
			e.Evidence = &api.Evidence{Undoes: undone}
			events = append(events, e)
		}
		var got []string
		for _, e := range event.InEffect(events) {
			got = append(got, e.ID)
		}
		require.Equal(t, want, strings.Join(got, " "), reviews)
	}
}

func TestClosed(t *testing.T) {
	yes, closedFacts := facts(true), facts(true)
	closedFacts.ApplicationStatus = api.ApplicationClosed
	for text, want := range map[string]*api.Facts{
		"closing@1": nil, "closing@1 doubt@2": nil, "yes@0 closing@1": closedFacts, "yes@0 closing@1 doubt@2": closedFacts,
		"closing@1 yes@2": yes, "closing:yes@0": closedFacts, "yes@1 closing@1": closedFacts,
	} {
		s := event.StateOf("a", parse(text))
		require.Equal(t, want, s.Facts, text)
		require.Equal(t, want == nil, s.Closed, text)
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
