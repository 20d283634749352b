package desk_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestFormsMakeOneCall has the call of each form, and the page and the notice that follow. A form
// with a reason is sent without one first.
func TestFormsMakeOneCall(t *testing.T) {
	applied := api.ImportReport{Applied: true, Published: 1}
	for path, c := range map[string]struct {
		form, call string
		response   any
		body, to   string
		notice     string
	}{
		"/records/maple/withdraw": {"reason=gone", "POST /listings/withdraw", applied, `{"ids":["maple"],"reason":"gone"}`,
			"/records/maple", "Withdrew maple."},
		"/records/maple/publish": {"", "POST /listings/publish", applied, `{"ids":["maple"]}`, "/records/maple",
			"Published 1 record."},
		"/records/maple/propose-withdrawal": {"reason=twice", "POST /reviews/records/maple/propose-withdrawal", nil,
			`{"reason":"twice"}`, "/records/maple", "A publisher decides"},
		"/records/maple/decline-withdrawal": {"reason=no", "POST /reviews/records/maple/decline-withdrawal", nil,
			`{"reason":"no"}`, "/withdrawals", "stays public"},
		"/requests/r1/approve": {"", "POST /keys/requests/r1/approve", api.KeyRequest{ID: "r1", State: "approved"}, "",
			"/requests", "Request r1 is approved."},
		"/requests/r1/decline": {"reason=no", "POST /keys/requests/r1/decline", api.KeyRequest{ID: "r1", State: "declined"},
			`{"reason":"no"}`, "/requests", "Request r1 is declined."},
		"/accounts/a1/suspend": {"reason=resells", "POST /accounts/a1/suspend", nil, `{"reason":"resells"}`, "/accounts/a1",
			"suspended"},
		"/accounts/a1/resume": {"reason=settled", "POST /accounts/a1/resume", nil, `{"reason":"settled"}`, "/accounts/a1",
			"works again"},
		"/accounts/a1/grant": {"tier=developer", "POST /accounts/a1/grant", nil, `{"tier":"developer"}`, "/accounts/a1",
			"has the tier developer"},
		"/keys/k1/revoke": {"account=a1", "POST /keys/k1/revoke", nil, "", "/accounts/a1", "The key is revoked."},
		"/reviews/maple/skip": {"days=3&reason=down", "PUT /reviews/records/maple/skip", api.Skip{},
			`{"reason":"down","until":"2026-11-25T09:00:00Z"}`, "/reviews/birch", "maple comes back in 3 days."},
		"/reviews/maple/undo": {"event=event-2", "POST /reviews/records/maple/undo",
			api.ReviewReport{AppendReport: api.AppendReport{Applied: true}}, `{"eventId":"event-2"}`, "/reviews/maple",
			"Your review is undone"},
		"/reviews/maple/discard":   {"", "DELETE /reviews/records/maple/draft", nil, "", "/reviews/maple", "is deleted"},
		"/reviews/maple/take-over": {"", lease, api.Lease{}, `{"takeOver":true}`, "/reviews/maple", "yours for 15 minutes"},
		"/records/maple/read": {"", "POST /records/maple/read", api.PagesDue{Pages: 2, Note: "Soon."}, "",
			"/records/maple/pages", "2 pages are due. Soon."},
	} {
		t.Run(path, func(t *testing.T) {
			s, b := reviewing(t)
			s.api.respond(c.call, c.response)
			form, err := url.ParseQuery(c.form)
			require.NoError(t, err)
			if form.Has("reason") {
				resp := b.post(path, with(url.Values{}, "reason", " "))
				require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
				resp.requireAll(t, "nter a reason")
				require.Empty(t, s.api.sent(c.call))
			}
			require.Equal(t, c.to, b.post(path, form).to())
			sent := s.api.sent(c.call)
			require.Equal(t, c.body, strings.TrimSpace(sent[0]))
			b.get("/help").requireAll(t, c.notice)
		})
	}
}

func TestActionsAreShownBeforeTheyAreDone(t *testing.T) {
	s, b := reviewing(t)
	s.api.respond("GET /reviews/withdrawals", api.WithdrawalList{Withdrawals: []api.Withdrawal{
		{ID: "maple", Company: "Maple Scribe", Actor: "bob", Reason: "Duplicate of birch", ProposedAt: s.Now()}}})
	const withdraw = "/records/maple/withdraw?reason=Duplicate%20of%20birch"
	b.get("/withdrawals").requireAll(t, `href="`+withdraw+`"`)
	b.get(withdraw).requireAll(t, `value="Duplicate of birch"`, "HTTP/1.1 404 Not Found", `<a href="/records/maple">Back</a>`)
	b.get("/requests/r1/approve").requireAll(t, "The key has the account&#39;s tier.", `<a href="/requests">Back</a>`)
	b.get("/keys/k1/revoke?account=a1").requireAll(t, `name="account" value="a1"`, `<a href="/accounts/a1">Back</a>`)
	b.get("/accounts/a1/grant").requireAll(t, "<option>commercial</option>")

	rejected := api.ImportReport{Rejected: []api.RejectedLine{{Problems: api.Problems{{Path: "sources", Message: "needs one"}}}}}
	s.api.respond("POST /listings/publish", rejected)
	s.api.respond("GET /reviews/candidates", api.CandidateList{})
	b.get("/records/maple/publish").requireAll(t, "sources: needs one")
	resp := b.post("/records/maple/publish", url.Values{})
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode)
	resp.requireAll(t, "sources: needs one")
}

func TestChecklistOfACandidateIsShownBeforeItsPublication(t *testing.T) {
	s, b := reviewing(t, func(s *api.ReviewSheet) { s.Visibility = "private" })
	s.api.respond("GET /records/maple", mapleDetail("v1", mapleListing))
	s.api.respond("POST /listings/publish", api.ImportReport{NeverReviewed: 1})
	c := api.Candidate{ID: "maple", Missing: []string{"overview", "facts.countryEligibility"},
		Duplicates: []api.Duplicate{{ID: "birch", Visibility: "published", By: "host"}}}
	candidates := func(c api.Candidate) {
		s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{{ID: "maple-2"}, c}})
	}
	candidates(c)
	for _, path := range []string{"/records/maple", "/records/maple/publish"} {
		b.get(path).requireAll(t, "The facts were never reviewed.",
			`Facts of the listing, Countries and regions: empty. <a href="/reviews/maple">Review</a>`,
			`May duplicate <a href="/records/birch">birch</a> (published): the same host.`)
	}
	b.get("/candidates").requireAll(t, "Overview, Facts of the listing, Countries and regions</td>")
	c.Reviewed = true // its facts are those of the review
	candidates(c)
	b.get("/candidates").requireAll(t, "Overview</td>")
}

func TestCandidatesAreReviewedAndPublishedOneAfterTheOther(t *testing.T) {
	s, b := reviewing(t, func(s *api.ReviewSheet) { s.Visibility = "private" })
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{
		{ID: "birch", Sources: 1}, {ID: "cedar", Sources: 3, Reviewed: true}, {ID: "maple", Sources: 4},
		{ID: "oak", Sources: 2, Missing: []string{"overview"}}, {ID: "pine", Sources: 2},
		{ID: "willow", Sources: 5, Lease: &api.Lease{Holder: "bob"}}}})
	require.Equal(t, "/reviews/maple", b.get("/candidates/next").to())
	s.api.respond(submitted, recorded(api.OutcomeVerified))
	page := b.get("/reviews/maple")
	page.requireAll(t, "Submit and publish")
	input := unchanged(page.input(t, "review"))
	require.Equal(t, "/reviews/pine", b.post("/reviews/maple", input).to())
	require.Equal(t, "/records/maple/publish?lane=on", b.post("/reviews/maple", with(input, "then", "publish")).to())
	s.api.respond("POST /listings/publish", api.ImportReport{Applied: true, Published: 1})
	b.get("/records/maple/publish?lane=on").requireAll(t, `name="lane" value="on"`, " autofocus>Publish record")
	require.Equal(t, "/reviews/pine", b.post("/records/maple/publish", url.Values{"lane": {"on"}}).to())

	s.api.respond("GET /reviews/candidates", api.CandidateList{})
	require.Equal(t, "/candidates", b.get("/candidates/next").to())
	s.api.setRole(api.RoleCurator)
	require.NotContains(t, s.signedIn().get("/reviews/maple").body, "Submit and publish")
}

func TestSeveralCandidatesArePublishedAfterAQuestion(t *testing.T) {
	s, b := reviewing(t)
	require.Equal(t, "/candidates", b.get("/candidates/publish").to())
	s.api.respond("POST /listings/publish", api.ImportReport{Applied: true, Published: 2, NeverReviewed: 1})
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{
		{ID: "birch", Reviewed: true}, {ID: "cedar"}, {ID: "oak", Reviewed: true}}})
	require.NotContains(t, b.get("/candidates").body, `aria-label="Choose " checked`)
	all := b.get("/candidates?reviewed=on")
	all.requireAll(t, `<a href="/candidates?all=on&amp;reviewed=on">Choose all 2</a>`)
	require.NotContains(t, all.body, "cedar")
	require.Equal(t, 2, strings.Count(b.get("/candidates?all=on&reviewed=on").body, `aria-label="Choose " checked`))
	b.get("/candidates/publish?id=birch&id=oak").requireAll(t, "2 listings would become public, 1 of them never reviewed.",
		`<input type="hidden" name="id" value="oak">`)
	require.Equal(t, "/candidates", b.post("/candidates/publish", url.Values{"id": {"birch", "oak"}}).to())
	require.JSONEq(t, `{"ids":["birch","oak"]}`, s.api.sent("POST /listings/publish")[1])
}
