package catalog_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/service/servicetest"
)

// serveReviews is the history service's part of reviewing. It records a review unless it was
// recorded before or is based on an older event.
func (h *historyServer) serveReviews(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	reply := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	id, isRecord := strings.CutPrefix(r.URL.Path, "/internal/v1/records/")
	id, latest := strings.CutSuffix(id, "/latest")
	var in api.ReviewAppend
	switch {
	case latest:
		reply([]api.VerificationEvent{{ID: "evt_" + id, CheckedAt: startTime}})
	case isRecord:
		reply(api.ReviewHistory{Summary: h.latest(id), Events: append([]api.RecordedEvent{}, h.events[id]...)})
	case r.URL.Path == "/internal/v1/readings":
		reply(h.findings)
	case r.URL.Path == "/internal/v1/reviews/done":
		done := map[string]int{}
		for _, events := range h.events {
			for _, e := range events {
				done[e.Actor]++
			}
		}
		reply(done)
	case json.NewDecoder(r.Body).Decode(&in) == nil && in.Review.Slug != "" && in.Review.CheckType == api.FactualReview:
		reply(h.record(in))
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func (h *historyServer) latest(slug string) api.Summary {
	latest := api.Summary{Slug: slug}
	for _, s := range h.summaries {
		if s.Slug == slug {
			latest = s
		}
	}
	return latest
}

func (h *historyServer) record(in api.ReviewAppend) (done api.ReviewReport) {
	review := in.Review
	e := api.VerificationEvent{Slug: review.Slug, CheckedAt: review.CheckedAt, CheckType: review.CheckType,
		Outcome: review.Outcome, SourceURLs: review.SourceURLs, Note: review.Note}
	if review.Facts != nil {
		e.Facts = &review.Facts.Facts
	}
	done.Rejected = []api.RejectedLine{}
	known := h.events[e.Slug]
	for _, other := range known {
		if other.CheckedAt.Equal(e.CheckedAt) && other.Outcome == e.Outcome && other.Note == e.Note {
			done.Applied, done.Duplicates, done.EventID = true, 1, other.ID
			return done
		}
	}
	if len(known) > 0 && known[0].ID != *review.LastEventID {
		done.Newer = known[:1]
		return done
	}
	e.ID = fmt.Sprintf("%s-%d", e.Slug, len(known)+1)
	if h.events == nil {
		h.events = map[string][]api.RecordedEvent{}
	}
	recorded := api.RecordedEvent{VerificationEvent: e, Actor: in.Actor,
		Evidence: &api.Evidence{Undoes: in.Undoes, Opened: in.Opened}}
	h.events[e.Slug] = append([]api.RecordedEvent{recorded}, known...)
	sum := h.latest(e.Slug)
	sum.Sequence, sum.LastEventID, sum.LastCheckedAt, sum.LastOutcome, sum.Facts = int64(len(h.summaries)+1), e.ID,
		&e.CheckedAt, e.Outcome, e.Facts
	sum.ReviewCount, sum.HistoryCount = sum.ReviewCount+1, sum.HistoryCount+1
	h.summaries = append(h.summaries, sum)
	h.wake()
	done.Applied, done.Appended, done.EventID, done.Outcome = true, 1, e.ID, e.Outcome
	return done
}

// operate sends a request of an operator.
func (s *service) operate(actor, method, path, body string) servicetest.Response {
	s.t.Helper()
	return s.Do(method, "/operator/v1/"+path, body, api.ActorHeader, actor)
}

// operated sends a request of an operator and decodes the response, which must have the status.
func operated[T any](s *service, status int, actor, method, path, body string) T {
	s.t.Helper()
	a := s.operate(actor, method, path, body)
	require.Equal(s.t, status, a.Status, "%s %s: %s", method, path, a.Body)
	return decode[T](s.t, a)
}

// decode decodes the body of a response with any status.
func decode[T any](t testing.TB, a servicetest.Response) (out T) {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(a.Body))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&out), a.Body)
	return out
}

// sheetFor returns a sheet from which the operator has opened a source.
func (s *service) sheetFor(actor, id string) api.ReviewSheet {
	s.t.Helper()
	sheet := operated[api.ReviewSheet](s, 200, actor, "GET", "reviews/records/"+id, "")
	s.open(actor, id, sheet)
	return sheet
}

// open opens a source from a sheet.
func (s *service) open(actor, id string, sheet api.ReviewSheet) {
	s.t.Helper()
	body := fmt.Sprintf(`{"sourceUrl":"https://acme.example/about","lastEventId":%q}`, sheet.LastEventID)
	require.Equal(s.t, http.StatusNoContent, s.operate(actor, "PUT", "reviews/records/"+id+"/opened", body).Status)
}

// opened returns the source that was opened for the newest review of a listing.
func (h *historyServer) opened(slug string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[slug][0].Evidence.Opened
}

// submission returns a verified review of what the sheet shows.
func submission(t testing.TB, sheet api.ReviewSheet, note string) string {
	t.Helper()
	review, err := json.Marshal(map[string]any{
		"checkedAt": sheet.GeneratedAt, "outcome": "verified", "sourceUrls": []string{"https://acme.example/about"},
		"facts": json.RawMessage(apitest.WholeFacts(`{"remote":true}`)), "note": note, "lastEventId": sheet.LastEventID,
	})
	require.NoError(t, err)
	return `{"review":` + string(review) + `}`
}

// verify reviews a listing on its current sheet.
func (s *service) verify(actor, id, note string) api.ReviewReport {
	s.t.Helper()
	return operated[api.ReviewReport](s, 200, actor, "POST", "reviews/records/"+id,
		submission(s.t, s.sheetFor(actor, id), note))
}

func TestReviewRecordsTheSheetAndEndsTheWork(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published","curation":{"contact":"jo@x.example",`+
			`"notes":"Calls only."}`))
		sheet := s.sheetFor("ann", "x")
		require.Equal(t, api.Curation{Contact: "jo@x.example", Notes: "Calls only."}, sheet.Curation)
		require.Empty(t, sheet.Events)
		require.Empty(t, sheet.Evidence.Quotes)
		require.Equal(t, api.DueNeverReviewed, sheet.Reasons[0].Why)
		operated[api.Lease](s, 200, "ann", "PUT", "reviews/records/x/lease", `{}`)
		operated[api.Draft](s, 200, "ann", "PUT", "reviews/records/x/draft", `{"note":"half"}`)
		operated[api.Draft](s, 200, "ben", "PUT", "reviews/records/x/draft", `["ben's"]`)
		sheet = s.sheetFor("ann", "x")
		require.Equal(t, "ann", sheet.Lease.Holder)
		require.JSONEq(t, `{"note":"half"}`, string(sheet.Draft.Content))

		report := operated[api.ReviewReport](s, 200, "ann", "POST", "reviews/records/x",
			submission(t, sheet, "all good"))
		require.True(t, report.Applied)
		require.Equal(t, "x-1", report.EventID)
		again := operated[api.ReviewReport](s, 200, "ann", "POST", "reviews/records/x",
			submission(t, sheet, "all good"))
		require.Equal(t, 1, again.Duplicates)
		require.Equal(t, report.EventID, again.EventID)

		require.Empty(t, s.due("").Records, "the record must not be due right after its review")
		require.Empty(t, s.queued("?within=0d"))
		sheet = s.sheetFor("ann", "x")
		require.Equal(t, api.Verified, sheet.Status)
		require.Equal(t, "x-1", sheet.LastEventID)
		require.Len(t, sheet.Events, 1)
		require.Nil(t, sheet.Lease)
		require.Nil(t, sheet.Draft)
		require.NotNil(t, s.sheetFor("ben", "x").Draft, "another operator's draft must stay")
	})
}

func TestReviewOfAnOutdatedSheetKeepsTheWork(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published"`))
		anns, bens := s.sheetFor("ann", "x"), s.sheetFor("ben", "x")
		operated[api.Draft](s, 200, "ben", "PUT", "reviews/records/x/draft", `{}`)
		operated[api.ReviewReport](s, 200, "ann", "POST", "reviews/records/x", submission(t, anns, "ann's"))
		late := operated[api.ReviewReport](s, 409, "ben", "POST", "reviews/records/x", submission(t, bens, "ben's"))
		require.False(t, late.Applied)
		require.Equal(t, "ann's", late.Newer[0].Note)
		require.NotNil(t, s.sheetFor("ben", "x").Draft)

		for body, problem := range map[string]string{
			`{"review":{}}`: "lastEventId: is missing",
			`{"review":{"slug":"y","lastEventId":""}}`: "slug: must be x or left out",
			`{"review":[]}`: "must be an object",
			`{"review":{"lastEventId":"","facts":{"salary":1}}}`: "facts.salary: is not a known field",
		} {
			got := operated[api.ReviewReport](s, 200, "ben", "POST", "reviews/records/x", body)
			require.False(t, got.Applied)
			require.Contains(t, fmt.Sprint(got.Rejected[0].Problems), problem)
		}
		require.Equal(t, 400, s.operate("ben", "POST", "reviews/records/x", `{"reviews":{}}`).Status)
		require.Equal(t, 404, s.operate("ben", "POST", "reviews/records/y", submission(t, bens, "")).Status)
		require.Equal(t, 404, s.operate("ben", "GET", "reviews/records/y", "").Status)
		s.history.setDown(true)
		require.Equal(t, 503, s.operate("ben", "GET", "reviews/records/x", "").Status,
			"a sheet without events would hide a conflict")
		require.Equal(t, 503, s.operate("ben", "POST", "reviews/records/x", submission(t, bens, "")).Status)
		s.history.setDown(false)
	})
}

func TestUndoIsAnEventThatNamesTheReview(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published"`))
		undo := func(actor, event string, status int) servicetest.Response {
			t.Helper()
			a := s.operate(actor, "POST", "reviews/records/x/undo", fmt.Sprintf(`{"eventId":%q}`, event))
			require.Equal(t, status, a.Status, a.Body)
			return a
		}
		submit := func(actor, facts string) {
			t.Helper()
			s.clock.Advance(time.Minute)
			body := submission(t, s.sheetFor(actor, "x"), facts)
			operated[api.ReviewReport](s, 200, actor, "POST", "reviews/records/x",
				strings.Replace(body, `"remote":true`, `"remote":`+facts, 1))
		}
		submit("ann", "false")
		submit("ben", "true")
		undo("ann", "x-2", 400) // of another operator
		undo("ben", "x-9", 400)
		undo("ann", "x-1", 409)
		s.clock.Advance(time.Minute)
		require.True(t, servicetest.Read[api.ReviewReport](undo("ben", "x-2", 200)).Applied)
		sheet := s.sheetFor("ben", "x")
		require.Len(t, sheet.Events, 3)
		event := sheet.Events[0]
		require.Equal(t, "x-2", event.Evidence.Undoes)
		require.Equal(t, "Undoes the review x-2.", event.Note)
		require.Equal(t, api.OutcomeNeedsReview, event.Outcome)
		require.Nil(t, event.Facts)
		s.clock.Advance(time.Minute)
		undo("ben", "x-2", 409)
	})
}

func TestLeaseHasOneHolder(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", ""))
		const path = "reviews/records/x/lease"
		var all sync.WaitGroup
		statuses := make([]int, 8)
		for i := range statuses {
			all.Go(func() { statuses[i] = s.operate(fmt.Sprintf("op-%d", i), "PUT", path, `{}`).Status })
		}
		all.Wait()
		taken := 0
		for _, status := range statuses {
			if status == http.StatusOK {
				taken++
			} else {
				require.Equal(t, http.StatusConflict, status)
			}
		}
		require.Equal(t, 1, taken)

		ann := operated[api.Lease](s, 200, "ann", "PUT", path, `{"takeOver":true}`)
		require.Equal(t, api.Lease{Holder: "ann", TakenAt: startTime, ExpiresAt: startTime.Add(api.LeaseTime)}, ann)
		s.clock.Set(startTime.Add(10 * time.Minute))
		require.Equal(t, ann, operated[api.Lease](s, 409, "ben", "PUT", path, `{}`))
		ann = operated[api.Lease](s, 200, "ann", "PUT", path, `{}`)
		require.Equal(t, api.Lease{Holder: "ann", TakenAt: startTime, ExpiresAt: startTime.Add(25 * time.Minute)}, ann,
			"want a renewed lease")
		require.Equal(t, 204, s.operate("ben", "DELETE", path, "").Status)
		require.Equal(t, "ann", s.sheetFor("ben", "x").Lease.Holder, "only the holder can end a lease")
		s.clock.Set(startTime.Add(25 * time.Minute))
		require.Nil(t, s.sheetFor("ben", "x").Lease, "an expired lease is none")
		require.Equal(t, "ben", operated[api.Lease](s, 200, "ben", "PUT", path, `{}`).Holder)
		require.Equal(t, 204, s.operate("ben", "DELETE", path, "").Status)
		require.Nil(t, s.sheetFor("ben", "x").Lease)
		require.Equal(t, 404, s.operate("ann", "PUT", "reviews/records/y/lease", `{}`).Status)
		require.Equal(t, 404, s.operate("ann", "PUT", "reviews/records/%00/lease", `{}`).Status)
		require.Equal(t, 400, s.operate("ann", "PUT", path, `{"force":true}`).Status)
	})
}

func TestDraftsAndSkips(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", ""))
		const draft, skip = "reviews/records/x/draft", "reviews/records/x/skip"
		full := `"` + strings.Repeat("a", api.MaxDraft-2) + `"`
		operated[api.Draft](s, 200, "ann", "PUT", draft, full)
		require.Equal(t, full, string(s.sheetFor("ann", "x").Draft.Content))
		for _, body := range []string{full + " ", "", "{", "\"\xff\""} {
			require.Equal(t, 400, s.operate("ann", "PUT", draft, body).Status, "%.20q", body)
		}
		require.Nil(t, s.sheetFor("ben", "x").Draft)
		require.Equal(t, 204, s.operate("ann", "DELETE", draft, "").Status)
		require.Nil(t, s.sheetFor("ann", "x").Draft)
		require.Equal(t, 404, s.operate("ann", "PUT", "reviews/records/y/draft", `1`).Status)

		request := func(until time.Time) string {
			return fmt.Sprintf(`{"reason":"site down","until":%q}`, until.Format(time.RFC3339Nano))
		}
		until := startTime.Add(time.Hour)
		operated[api.Skip](s, 200, "ann", "PUT", skip, request(until))
		require.Equal(t, &api.Skip{Actor: "ann", Reason: "site down", SkippedAt: startTime, Until: until},
			s.sheetFor("ben", "x").Skip)
		for _, body := range []string{
			request(startTime), request(startTime.Add(api.MaxSkip + time.Second)),
			`{"reason":" ","until":"2026-11-21T00:00:00Z"}`, `{"reason":"x"}`,
		} {
			require.Equal(t, 400, s.operate("ann", "PUT", skip, body).Status, body)
		}
		s.clock.Set(until)
		require.Nil(t, s.sheetFor("ben", "x").Skip, "the record must return at that time")
		operated[api.Skip](s, 200, "ann", "PUT", skip, request(until.Add(time.Hour)))
		require.Equal(t, 204, s.operate("ben", "DELETE", skip, "").Status)
		require.Nil(t, s.sheetFor("ben", "x").Skip)
	})
}
