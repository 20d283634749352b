package desk_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// uploaded sends a file to the import page.
func (b browser) uploaded(name, content string) response {
	b.s.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	part, err := w.CreateFormFile("file", name)
	require.NoError(b.s.t, err)
	_, _ = part.Write([]byte(content))
	require.NoError(b.s.t, w.Close())
	r, err := http.NewRequestWithContext(b.s.t.Context(), http.MethodPost, b.s.URL+"/import", &body)
	require.NoError(b.s.t, err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return b.do(r)
}

func TestImportIsBoundToItsDryRun(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	dryRun := func(sum string) {
		s.api.respond("POST /listings/import", api.ImportPreview{DryRun: true, SHA256: sum, Created: 1, Updated: 1, Changes: []api.ListingChange{
			{ID: "maple", Change: api.ListingCreated},
			{ID: "birch", Change: api.ListingUpdated, Fields: []api.FieldChange{{Field: "sources[0].url", Old: json.RawMessage(`"https://a.example"`), New: json.RawMessage(`"https://b.example"`)}}},
		}})
	}
	dryRun(one)
	page := b.uploaded("new.jsonl", "{\"id\":\"maple\"}\n")
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Contains(t, page.body, "would create 1")
	require.Contains(t, page.body, `<td data-label="Field">Source 1, URL</td><td data-label="Now" class="clip">&#34;https://a.example&#34;</td><td data-label="New" class="clip">&#34;https://b.example&#34;</td>`)
	require.Contains(t, page.body, `name="sha256" value="`+one+`"`)

	dryRun(two)
	require.Equal(t, http.StatusOK, b.uploaded("other.jsonl", "{\"id\":\"birch\"}\n").StatusCode)
	resp := b.post("/import/confirm", url.Values{"sha256": {one}})
	require.Equal(t, http.StatusConflict, resp.StatusCode, "a file was imported that is not the latest dry run")
	require.Len(t, s.api.sent("POST /listings/import"), 2)

	dryRun(one)
	require.Equal(t, http.StatusOK, b.uploaded("new.jsonl", "{\"id\":\"maple\"}\n").StatusCode)
	s.api.respond("POST /listings/import", api.ImportReport{Applied: true, Created: 1})
	require.Equal(t, http.StatusSeeOther, b.post("/import/confirm", url.Values{"sha256": {one}}).StatusCode)
	require.Contains(t, s.api.requests, "POST /listings/import sha256="+one+" {\"id\":\"maple\"}\n", "the API did not check the file")
	require.Equal(t, http.StatusConflict, b.post("/import/confirm", url.Values{"sha256": {one}}).StatusCode, "a second click imported the file again")
}

// A spreadsheet is converted: the dry run and the import are of the same lines.
func TestCSVFileIsImportedAsItsDryRunShowed(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	var sheet bytes.Buffer
	require.NoError(t, listingfile.ToCSV(bytes.NewReader(listingfile.Example), &sheet))
	sum := strings.Repeat("3", 64)
	s.api.respond("POST /listings/import", api.ImportPreview{DryRun: true, SHA256: sum, Created: 1})
	require.Contains(t, b.uploaded("Listings.CSV", sheet.String()).body, "would create 1")
	s.api.respond("POST /listings/import", api.ImportReport{Applied: true, Created: 1})
	require.Equal(t, http.StatusSeeOther, b.post("/import/confirm", url.Values{"sha256": {sum}}).StatusCode)
	sent := s.api.sent("POST /listings/import")
	require.Equal(t, sent[0], sent[1])
	require.Contains(t, sent[0], `"id":"maple-transcripts"`)
	page := b.uploaded("broken.csv", "id,name\nx,y\n")
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	require.Contains(t, page.body, "is not a known column")
	require.Len(t, s.api.sent("POST /listings/import"), 2)
}

func TestRejectedLinesOfAnImportAreListed(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	s.api.respond("POST /listings/import", api.ImportPreview{Rejected: []api.RejectedLine{{Line: 3, ID: "maple", Problems: api.Problems{"summary: must not be empty"}}}})
	page := b.uploaded("new.jsonl", "{}\n")
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	require.Contains(t, page.body, "summary: must not be empty")
	require.NotContains(t, page.body, "/import/confirm")
	require.Contains(t, b.post("/import", url.Values{}).body, "choose a file")
}

func TestWithdrawalAndDecisionsNeedAReason(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	s.api.respond("POST /listings/withdraw", api.ImportReport{Applied: true, Updated: 1})
	s.api.respond("POST /keys/requests/r1/decline", api.KeyRequest{ID: "r1", State: "declined"})
	s.api.respond("POST /accounts/a1/suspend", struct{}{})
	for path, at := range map[string]string{
		"/records/maple/withdraw": "POST /listings/withdraw", "/requests/r1/decline": "POST /keys/requests/r1/decline", "/accounts/a1/suspend": "POST /accounts/a1/suspend",
	} {
		require.Equal(t, http.StatusOK, b.get(path).StatusCode, path)
		require.Equal(t, http.StatusUnprocessableEntity, b.post(path, url.Values{"reason": {" "}}).StatusCode, path)
		require.Empty(t, s.api.sent(at), path)
		require.Equal(t, http.StatusSeeOther, b.post(path, url.Values{"reason": {"gone"}}).StatusCode, path)
		require.Contains(t, s.api.sent(at)[0], `"reason":"gone"`)
	}
}

func TestChecklistOfACandidateIsShownBeforeItsPublication(t *testing.T) {
	s, b := reviewing(t)
	private := mapleDetail("v1", strings.Replace(mapleListing, `"visibility":"published"`, `"visibility":"private"`, 1))
	s.api.respond("GET /listings/maple", private)
	s.api.respond("POST /listings/publish", api.ImportReport{NeverReviewed: 1})
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{
		{ID: "maple-2"}, {ID: "maple", Missing: []string{"facts.countryEligibility"}, Duplicates: []api.Duplicate{{ID: "birch", Visibility: "published", By: "host"}}},
	}})
	for _, path := range []string{"/records/maple", "/records/maple/publish"} {
		page := b.get(path)
		require.Equal(t, http.StatusOK, page.StatusCode, page.body)
		require.Contains(t, page.body, "The facts were never reviewed.")
		require.Contains(t, page.body, `Facts of the listing, Countries: empty. <a href="/records/maple/edit#facts.countryEligibility">`)
		require.Contains(t, page.body, `May duplicate <a href="/records/birch">birch</a> (published): the same host.`)
	}
}

func TestNavigationFollowsTheRole(t *testing.T) {
	s := newServer(t)
	for role, want := range map[api.Role][]string{
		api.RoleCurator: {"Queue", "Candidates", "Records", "Freshness"}, api.RoleSupport: {"Key requests", "Accounts", "Audit"},
		api.RolePublisher: {"Queue", "Candidates", "Records", "Freshness", "Import"},
	} {
		s.api.mu.Lock()
		s.api.tokens[annsToken] = api.Operator{Name: "ann", Role: role}
		s.api.mu.Unlock()
		page := s.signedIn().get("/help").body
		nav := page[strings.Index(page, "<nav"):strings.Index(page, "</nav>")]
		require.Equal(t, len(want), strings.Count(nav, "<li>"), role)
		for _, label := range want {
			require.Contains(t, nav, ">"+label+"</a>", role)
		}
	}
}

func TestCompareShowsAnyTwoEventsAndTheListing(t *testing.T) {
	s, b := reviewing(t)
	shown, before, after := sheet(), api.UnknownFacts(), api.UnknownFacts()
	before.Remote, after.Remote = ptr(true), ptr(false)
	event := func(id string, kind api.CheckType, facts *api.Facts, source string) api.RecordedEvent {
		return api.RecordedEvent{Actor: "bob", VerificationEvent: api.VerificationEvent{ID: id, CheckType: kind, Outcome: "o-" + api.Outcome(id), Facts: facts, SourceURLs: []string{source}}}
	}
	shown.Events = []api.RecordedEvent{
		event("link", "application-link", nil, site), event("new", api.Review, &after, rates), event("old", api.Review, &before, site),
	}
	shown.OwnFacts = ptr(api.UnknownFacts())
	s.api.respond("GET /reviews/records/maple", shown)
	page := b.get("/records/maple/compare")
	require.Equal(t, http.StatusOK, page.StatusCode, page.body)
	require.Contains(t, page.body, `<option value="old">`)
	require.Contains(t, page.body, "<strong>1</strong> fact differs", "want the two latest reviews")
	page = b.get("/records/maple/compare?a=old&b=new")
	require.Contains(t, page.body, "<strong>Remote</strong>: Yes according to "+site+", but No according to "+rates)
	page = b.get("/records/maple/compare?a=link&b=new")
	require.Contains(t, page.body, "The first event has no facts")
	require.Contains(t, page.body, ">o-link<")
}

func TestFreshnessIsDrawnOnTheServer(t *testing.T) {
	s := newServer(t)
	s.api.respond("GET /reviews/freshness", api.Freshness{
		Now: api.FreshnessSample{Day: "2026-11-22", Verified: 3, Stale: 1}, Ahead: []api.DueDay{{Day: "2026-11-22", Due: 4, Target: 2}},
		Links: map[api.Outcome]int{"": 1, api.OutcomeReachable: 3},
	})
	page := s.signedIn().get("/freshness")
	require.Equal(t, http.StatusOK, page.StatusCode, page.body)
	require.Contains(t, page.body, `<rect class="verified" x="0.0" y="40.0" width="630.0" height="120.0"/>`)
	require.Contains(t, page.body, `<rect class="target" x="0.0" y="80.0" width="560.0" height="1"/>`)
	require.Contains(t, page.body, "never checked")
	s.api.respond("GET /reviews/freshness", api.Freshness{})
	require.Equal(t, http.StatusOK, s.signedIn().get("/freshness").StatusCode)
}
