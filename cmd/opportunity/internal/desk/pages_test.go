package desk_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
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
		s.api.respond("POST /listings/import", api.ImportReport{SHA256: sum, Created: 1, Updated: 1,
			Changes: []api.ListingChange{
				{ID: "maple", Change: api.ListingCreated},
				{ID: "birch", Change: api.ListingUpdated,
					Fields: []api.FieldChange{{Field: "sources[0].url", Old: json.RawMessage(`"https://a.example"`),
						New: json.RawMessage(`"https://b.example"`)}}},
			}})
	}
	dryRun(one)
	page := b.uploaded("new.jsonl", "{\"id\":\"maple\"}\n")
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Contains(t, page.body, "would create 1")
	require.Contains(t, page.body,
		`<td data-label="Field">Source 1, URL</td><td data-label="Now" class="clip">&#34;https://a.example&#34;</td><td data-label="New" class="clip">&#34;https://b.example&#34;</td>`)
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
	require.Contains(t, s.api.requests, "POST /listings/import sha256="+one+" {\"id\":\"maple\"}\n",
		"the API did not check the file")
	require.Equal(t, http.StatusConflict, b.post("/import/confirm", url.Values{"sha256": {one}}).StatusCode,
		"a second click imported the file again")
}

// A spreadsheet is converted: the dry run and the import are of the same lines.
func TestCSVFileIsImportedAsItsDryRunShowed(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	var sheet bytes.Buffer
	require.NoError(t, listingfile.ToCSV(bytes.NewReader(listingfile.Example), &sheet))
	sum := strings.Repeat("3", 64)
	s.api.respond("POST /listings/import", api.ImportReport{SHA256: sum, Created: 1})
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
	s.api.respond("POST /listings/import",
		api.ImportReport{Rejected: []api.RejectedLine{{Line: 3, ID: "maple",
			Problems: apitest.Problems("summary: must not be empty")}}})
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
		"/records/maple/withdraw": "POST /listings/withdraw", "/requests/r1/decline": "POST /keys/requests/r1/decline",
		"/accounts/a1/suspend": "POST /accounts/a1/suspend",
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
	s.api.respond("GET /records/maple", private)
	sheet := sheet()
	sheet.Visibility = "private"
	s.api.respond("GET /reviews/records/maple", sheet)
	s.api.respond("POST /listings/publish", api.ImportReport{NeverReviewed: 1})
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{
		{ID: "maple-2"}, {ID: "maple", Missing: []string{"facts.countryEligibility"},
			Duplicates: []api.Duplicate{{ID: "birch", Visibility: "published", By: "host"}}},
	}})
	for _, path := range []string{"/records/maple", "/records/maple/publish"} {
		page := b.get(path)
		require.Equal(t, http.StatusOK, page.StatusCode, page.body)
		require.Contains(t, page.body, "The facts were never reviewed.")
		require.Contains(t, page.body, `Facts of the listing, Countries and regions: empty. <a href="/reviews/maple">Review</a>`)
		require.Contains(t, page.body, `May duplicate <a href="/records/birch">birch</a> (published): the same host.`)
	}
}

// audited is a desk whose operator API has an act in each log.
func audited(t *testing.T, role api.Role) (*server, browser) {
	t.Helper()
	s := newServer(t)
	s.api.tokens[annsToken] = api.Operator{Name: "ann", Role: role}
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 10, minute, 0, 0, time.UTC) }
	s.api.respond("GET /changes",
		api.ListingActList{Acts: []api.IdentifiedAct{{ID: 7, Listing: "maple",
			ListingAct: api.ListingAct{At: at(1), Actor: "bob", Action: "withdrawn", Reason: "=site()"}}}})
	s.api.respond("GET /events", api.EventActList{Events: []api.PlacedEvent{{Position: 9, RecordedEvent: api.RecordedEvent{
		RecordedAt: at(3), Actor: "ann", VerificationEvent: api.VerificationEvent{ID: "e", Slug: "birch",
			Outcome: api.OutcomeVerified, Note: "all good"},
	}}}})
	s.api.respond("GET /audit",
		api.AuditList{Entries: []api.AuditEntry{{ID: 4, At: at(2), Actor: "eve", Action: "account.suspend", Subject: "acct",
			Detail: json.RawMessage(`{"reason":"abuse"}`)}}})
	return s, s.signedIn()
}

func TestAuditMergesTheLogsThatTheRoleCanRead(t *testing.T) {
	for role, want := range map[api.Role][]string{
		api.RoleAdmin: {"review: verified", "account.suspend", "listing: withdrawn"}, api.RoleCurator: {"review: verified",
			"listing: withdrawn"},
		api.RoleSupport: {"account.suspend"},
	} {
		s, b := audited(t, role)
		page := b.get("/audit?actor=ann&from=2026-11-20&to=2026-11-21")
		require.Equal(t, http.StatusOK, page.StatusCode, page.body)
		rest := page.body
		for _, text := range want {
			_, after, found := strings.Cut(rest, `data-label="Action" class="whole">`+text)
			require.True(t, found, "%s: no %q in the expected order", role, text)
			rest = after
		}
		require.Equal(t, len(want), strings.Count(page.body, `data-label="Action" class`))
		require.Equal(t, role != api.RoleSupport, strings.Contains(page.body, ">=site()</td>"), "the reason alone")
		for _, r := range s.api.requests[1:] { // after the sign-in
			require.Contains(t, r, "actor=ann")
			require.Contains(t, r, "since=2026-11-20T00%3A00%3A00Z")
			require.Contains(t, r, "until=2026-11-22T00%3A00%3A00Z", "the last day counts")
		}
	}
}

func TestAuditFilters(t *testing.T) {
	s, b := audited(t, api.RoleAdmin)
	for query, want := range map[string][]string{
		"kind=listing": {"GET /changes"}, "kind=review": {"GET /events checkType=review"},
		"kind=link-check": {"GET /events checkType=application-link"},
		"record=maple": {"GET /changes",
			"GET /events checkType=review"}, "account=acct": {"GET /audit account=acct"},
		"action=key.":               {"GET /audit action=key."},
		"kind=account&record=maple": nil,
	} {
		s.api.mu.Lock()
		s.api.requests = nil
		s.api.mu.Unlock()
		require.Equal(t, http.StatusOK, b.get("/audit?"+query).StatusCode, query)
		require.Len(t, s.api.requests, len(want), query)
		for i, r := range want {
			at, parameter, _ := strings.Cut(r, " checkType")
			require.True(t, strings.HasPrefix(s.api.requests[i], strings.Fields(at)[0]+" "+strings.Fields(at)[1]+" "), "%s: %s",
				query, s.api.requests[i])
			require.Contains(t, s.api.requests[i], parameter)
		}
	}
	page := b.get("/audit?from=yesterday")
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	require.Contains(t, page.body, "Enter a date such as 2026-11-20")
	require.Equal(t, http.StatusUnprocessableEntity, b.get("/audit?after=x").StatusCode)
}

func TestAuditIsExported(t *testing.T) {
	_, b := audited(t, api.RoleCurator)
	file := b.get("/audit.csv")
	require.Equal(t, `attachment; filename="audit.csv"`, file.Header.Get("Content-Disposition"))
	require.Equal(t, "at,actor,kind,action,subject,detail\n"+
		"2026-11-20T10:03:00Z,ann,review,verified,birch,all good\n"+
		"2026-11-20T10:01:00Z,bob,listing,withdrawn,maple,'=site()\n", file.body)
}

func TestNavigationFollowsTheRole(t *testing.T) {
	s := newServer(t)
	for role, want := range map[api.Role][]string{
		api.RoleCurator: {"Queue", "Candidates", "Records", "Freshness", "Audit"}, api.RoleSupport: {"Key requests",
			"Accounts", "Usage", "Audit"},
		api.RolePublisher: {"Queue", "Candidates", "Records", "Freshness", "Withdrawals", "Import", "Audit"},
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

func TestUsageIsDrawnOnTheServer(t *testing.T) {
	s := newServer(t)
	s.api.respond("GET /usage", api.UsageReport{Days: []api.TierUsage{
		{Date: "2026-11-21", Tier: api.Free, Calls: 30, Refused: map[api.CallOutcome]int{api.CallMinuteLimitReached: 5},
			Failed: 2},
		{Date: "2026-11-21", Tier: api.Commercial, Calls: 10}, {Date: "2026-11-22", Tier: api.Free,
			Calls: 20}, {Date: "2020-01-01", Tier: api.Free, Calls: 1000},
	}})
	page := s.signedIn().get("/usage?days=7")
	require.Equal(t, http.StatusOK, page.StatusCode, page.body)
	require.Contains(t, s.api.requests, "GET /usage days=7 ")
	require.Contains(t, page.body, "<strong>60</strong> calls with a known key, 5 rejected, 2 failed")
	require.Contains(t, page.body,
		`<title>2026-11-21: 40, free 30, commercial 10</title><rect class="series-0" x="500.0" y="40.0" width="90.0" height="120.0"/><rect class="series-2" x="500.0" y="0.0" width="90.0" height="40.0"/>`)
	require.Contains(t, page.body, `<title>2026-11-22: 20, free 20</title><rect class="series-0" x="600.0" y="80.0"`)
	require.Contains(t, page.body, `<tr><th scope="row">2026-11-21</th><td>5</td><td>5</td></tr>`)
	require.Contains(t, page.body, `<th scope="col">minute limit reached</th>`)
	s.api.respond("GET /usage", api.UsageReport{})
	page = s.signedIn().get("/usage?days=10000")
	require.Contains(t, page.body, "No call was rejected.")
	require.Contains(t, s.api.requests, "GET /usage days=30 ")
}

func TestFreshnessIsDrawnOnTheServer(t *testing.T) {
	s := newServer(t)
	s.api.respond("GET /reviews/freshness", api.Freshness{
		Now: api.FreshnessSample{Day: "2026-11-22", Verified: 3,
			Stale: 1}, Ahead: []api.DueDay{{Day: "2026-11-22", Due: 4, Target: 2}},
		Links: map[api.Outcome]int{"": 1, api.OutcomeReachable: 3}, Facts: 20, Quoted: 7,
	})
	page := s.signedIn().get("/freshness")
	require.Equal(t, http.StatusOK, page.StatusCode, page.body)
	require.Contains(t, page.body, `<rect class="verified" x="0.0" y="40.0" width="630.0" height="120.0"/>`)
	require.Contains(t, page.body, `<rect class="target" x="0.0" y="80.0" width="630.0" height="1.0"/>`)
	require.Contains(t, page.body, "never checked")
	require.Contains(t, page.body, "7 of 20 facts that reviews recorded have a quote.")
	require.Contains(t, page.body, `<p class="scale"><span>4</span><span>0</span></p>`)
	require.Contains(t, page.body, `<p class="dates"><span>11-22</span></p>`)
	s.api.respond("GET /reviews/freshness", api.Freshness{})
	require.Equal(t, http.StatusOK, s.signedIn().get("/freshness").StatusCode)
}

func TestReviewedFactsAreNotMissing(t *testing.T) {
	s, b := reviewing(t)
	c := api.Candidate{ID: "maple", Company: "Maple", Missing: []string{"overview", "facts.countryEligibility"}}
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{c}})
	require.Contains(t, b.get("/candidates").body, "Overview, Facts of the listing, Countries and regions</td>")
	c.Reviewed = true
	s.api.respond("GET /reviews/candidates", api.CandidateList{Candidates: []api.Candidate{c}})
	require.Contains(t, b.get("/candidates").body, "Overview</td>")
}
