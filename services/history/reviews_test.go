package history_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// review sends a review as the catalog does.
func (s *instance) review(actor, lastEventID, line string) api.ReviewReport {
	s.t.Helper()
	in := api.ReviewAppend{Actor: actor}
	in.Review.LastEventID = &lastEventID
	return s.submit(in, line)
}

// submit sends the review of a line of an events file.
func (s *instance) submit(in api.ReviewAppend, line string) api.ReviewReport {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(line), &in.Review))
	return servicetest.Read[api.ReviewReport](s.Do(http.MethodPost, "/internal/v1/reviews", in))
}

// public returns the history of a listing as soon as it is public.
func (s *instance) public(slug string) (history string) {
	s.t.Helper()
	storetest.Eventually(s.t, "the listing is published", func() bool {
		got := s.get("/api/v1/opportunities/" + slug + "/history")
		history = got.Body
		return got.Status == http.StatusOK
	})
	return history
}

func (s *instance) reviewHistory(slug string) api.ReviewHistory {
	s.t.Helper()
	return servicetest.Read[api.ReviewHistory](s.Do(http.MethodGet, "/internal/v1/records/"+slug, ""))
}

func TestReviewIsRecordedOnceHoweverOftenItIsSent(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		first := line("a", "2026-11-19T10:00:00Z", api.FactualReview, api.OutcomeVerified)
		var all sync.WaitGroup
		reports := make([]api.ReviewReport, 8)
		for i := range reports {
			all.Go(func() { reports[i] = s.review("ann", "", first) })
		}
		all.Wait()
		appended := 0
		for _, r := range reports {
			require.True(t, r.Applied)
			require.Equal(t, reports[0].EventID, r.EventID, "want the same event for every submission")
			require.Equal(t, api.OutcomeVerified, r.Outcome)
			require.Equal(t, 1, r.Appended+r.Duplicates)
			appended += r.Appended
		}
		require.Equal(t, 1, appended)
		got := s.reviewHistory("a")
		require.Len(t, got.Events, 1)
		require.Equal(t, "ann", got.Events[0].Actor)
		require.Equal(t, got.Events[0].ID, got.Summary.LastEventID)
		require.Equal(t, 1, got.Summary.ReviewCount)
	})
}

// The author of a review gets the events that the sheet did not show, of the desk as of a file.
func TestReviewOfAnOutdatedSheetReturnsTheNewerEvents(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		s.record(line("a", "2026-11-18T11:00:00Z", api.LinkCheck, api.OutcomeClosed))
		review := line("a", "2026-11-18T10:30:00Z", api.FactualReview, api.OutcomeVerified)
		late := s.review("ben", "", review)
		require.False(t, late.Applied)
		filed := s.Do(http.MethodPost, "/operator/v1/events/append", strings.TrimSuffix(review, "}")+`,"lastEventId":""}`)
		require.Equal(t, http.StatusConflict, filed.Status, filed.Body)
		var report api.AppendReport
		require.NoError(t, json.Unmarshal([]byte(filed.Body), &report))
		require.Equal(t, late.AppendReport, report)
		require.Equal(t, []any{"a", "ada", now, api.OutcomeClosed}, // listing, actor, time and outcome
			[]any{late.Newer[0].Slug, late.Newer[0].Actor, late.Newer[0].RecordedAt, late.Newer[0].Outcome})
		require.True(t, s.review("ben", late.Newer[0].ID, review).Applied)
		require.NotContains(t, s.public("a"), "lastEventId")
		latest := func(id string) []api.VerificationEvent {
			return servicetest.Read[[]api.VerificationEvent](s.get("/internal/v1/records/" + id + "/latest"))
		}
		require.Len(t, latest("a"), 2)
		require.Empty(t, latest("b"), "without events")
	})
}

func TestInvalidReviewIsRejectedWithItsProblems(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		got := s.review("ann", "",
			`{"slug":"a","checkedAt":"2026-11-19T10:00:00Z","checkType":"review","outcome":"verified"}`)
		require.False(t, got.Applied)
		require.Contains(t, got.Rejected[0].Problems[0].String(), "sourceUrls: a verified review needs")
		for _, body := range []string{``, `{"review":{}}`,
			`{"actor":"ann","review":` + line("a", "2026-11-19T10:00:00Z", api.LinkCheck, api.OutcomeClosed) + `}`} {
			s.Do(http.MethodPost, "/internal/v1/reviews", body).RequireError("invalid_parameter")
		}
		require.Empty(t, s.reviewHistory("a").Events)
	})
}

func TestQuotesCanBeRequired(t *testing.T) {
	t.Parallel()
	source := newCatalog(t)
	cfg := config(schema.SQLite(t), source.URL)
	cfg.RequireQuotes = true
	s := run(t, cfg, source)
	s.catalog.set("a", true)
	bare := line("a", "2026-11-19T10:00:00Z", api.FactualReview, api.OutcomeVerified)
	got := s.review("ann", "", bare)
	require.Equal(t, apitest.Problems("facts.remote: needs a quote from one of its sources"), got.Rejected[0].Problems)
	quoted := strings.TrimSuffix(bare, "}") + `,"evidence":{"quotes":[{"fact":"remote","sourceUrl":"` + apitest.Source +
		`","exact":"Work from home"}]}}`
	require.True(t, s.review("ann", "", quoted).Applied)
	require.Equal(t, "Work from home", s.reviewHistory("a").Evidence.Quotes[0].Exact)
	require.NotContains(t, s.get("/api/v1/opportunities/a/history").Body, "Work from home")

	s.catalog.set("b", true)
	s.record(line("b", "2026-11-19T10:00:00Z", api.FactualReview, api.OutcomeVerified))
	require.True(t, s.review("ann", s.reviewHistory("b").Summary.LastEventID,
		line("b", "2026-11-19T11:00:00Z", api.FactualReview, api.OutcomeNeedsReview)).Applied)
}

func TestUndoneReviewStaysInTheHistoryOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		first := s.review("ann", "", line("a", "2026-11-19T10:00:00Z", api.FactualReview, api.OutcomeVerified))
		before := s.reviewHistory("a").Summary
		second := strings.TrimSuffix(line("a", "2026-11-19T11:00:00Z", api.FactualReview, api.OutcomeClosed), "}") +
			`,"evidence":{"gone":["https://a.example/faq"]}}`
		closed := s.review("ann", first.EventID, second).EventID
		require.NotEmpty(t, s.reviewHistory("a").Summary.Gone)

		undo := line("a", "2026-11-19T12:00:00Z", api.FactualReview, api.OutcomeNeedsReview)
		for range 2 { // repeating it has no further effect
			require.True(t, s.submit(api.ReviewAppend{Actor: "ann", Undoes: closed}, undo).Applied)
		}
		after := s.reviewHistory("a")
		require.Equal(t, closed, after.Events[0].Evidence.Undoes)
		require.Len(t, after.Events, 3)
		want := before
		want.HistoryCount, want.Sequence, want.LastEventID = 3, after.Summary.Sequence, after.Summary.LastEventID
		require.Equal(t, want, after.Summary)
		public := s.public("a")
		require.Equal(t, 3, strings.Count(public, `"checkedAt"`))
		require.NotContains(t, public, "undoes")
	})
}

var none = api.Evidence{Quotes: []api.Quote{}, Gone: []string{}, Unopened: []string{}}

func TestReviewHistoryHasThePreviousFactsAndTheNewestEvents(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", false)
		require.Equal(t, api.ReviewHistory{Summary: api.Summary{Slug: "a"}, Events: []api.RecordedEvent{},
			Evidence: none, Readings: []api.QuoteReading{}, Suggestions: []api.Quote{}}, s.reviewHistory("a"))
		lines := []string{opinionLine("a", 1, "true"), opinionLine("a", 2, "false"),
			`{"slug":"a","checkedAt":"2026-11-19T10:03:00Z","checkType":"review","outcome":"closed"}`}
		for i := range api.MaxSheetEvents {
			lines = append(lines, line("a", fmt.Sprintf("2026-11-19T11:%02d:%02dZ", i/60, i%60), api.LinkCheck,
				api.OutcomeReachable))
		}
		s.record(lines...)
		got := s.reviewHistory("a")
		require.False(t, *got.PreviousFacts.Remote)
		require.Equal(t, api.ApplicationClosed, got.Summary.Facts.ApplicationStatus)
		require.Len(t, got.Events, api.MaxSheetEvents)
		require.Equal(t, got.Events[0].ID, got.Summary.LastEventID)
		require.Equal(t, api.MaxSheetEvents+3, got.Summary.HistoryCount)
	})
}

func TestActsAreFilteredAndPaged(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		for _, slug := range []string{"a", "b"} {
			s.catalog.set(slug, true)
			s.record(line(slug, "2026-11-10T00:00:00Z", api.LinkCheck, api.OutcomeReachable)) // by ada
			s.review("ann", s.reviewHistory(slug).Summary.LastEventID, opinionLine(slug, 0, "true"))
		}
		list := func(query string) (acts []string, next int64) {
			t.Helper()
			got := servicetest.Read[api.EventActList](s.Do(http.MethodGet, "/operator/v1/events"+query, ""))
			for _, e := range got.Events {
				acts = append(acts, e.Slug+" "+e.Actor)
			}
			return acts, got.Next
		}
		first, next := list("?limit=3")
		require.Equal(t, []string{"b ann", "b ada", "a ann"}, first)
		rest, end := list(fmt.Sprintf("?limit=3&before=%d", next))
		require.Equal(t, []string{"a ada"}, rest)
		require.Zero(t, end)
		for query, want := range map[string]int{
			"": 4, "?actor=ann": 2, "?actor=ann&listing=a": 1, "?checkType=review": 2, "?since=2026-11-20T12:00:00Z": 4,
			"?since=2026-11-20T12:00:01Z": 0, "?until=2026-11-20T12:00:00Z": 0, "?until=2026-11-20T12:00:01Z": 4,
		} {
			got, _ := list(query)
			require.Len(t, got, want, query)
		}
		for _, query := range []string{"?since=yesterday", "?until=yesterday", "?before=0", "?limit=1001",
			"?checkType=call", "?who=ann", "?listing=A"} {
			require.Equal(t, http.StatusBadRequest, s.Do(http.MethodGet, "/operator/v1/events"+query, "").Status, query)
		}
		done := func(since string) map[string]int {
			return servicetest.Read[map[string]int](s.Do(http.MethodGet, "/internal/v1/reviews/done?since="+since, ""))
		}
		require.Empty(t, done("2026-11-21T00:00:00Z"))
		review := s.review("ann", s.reviewHistory("a").Events[0].ID, opinionLine("a", 50, "true")).EventID
		require.Equal(t, map[string]int{"ann": 3}, done("2026-11-20T00:00:00Z"))
		s.undo("ann", "a", review, "2026-11-19T10:51:00Z")
		require.Equal(t, map[string]int{"ann": 2}, done("2026-11-20T00:00:00Z"), "neither the undone review nor its undo")
	})
}
