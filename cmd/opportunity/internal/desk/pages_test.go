package desk_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
)

const imports = "POST /listings/import"

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
	confirm := func(sum string) response { return b.post("/import/confirm", url.Values{"sha256": {sum}}) }
	dryRun := func(sum, line string) response {
		s.api.respond(imports, api.ImportReport{SHA256: sum, Created: 1, Changes: []api.ListingChange{
			{ID: "maple", Change: api.ListingCreated},
			{ID: "birch", Change: api.ListingUpdated, Fields: []api.FieldChange{{Field: "sources[0].url",
				Old: json.RawMessage(`"https://a.example"`), New: json.RawMessage(`"https://b.example"`)}}}}})
		return b.uploaded("new.jsonl", line)
	}
	dryRun(one, "{\"id\":\"maple\"}\n").requireAll(t, "would create 1", `name="sha256" value="`+one+`"`,
		`<td data-label="Field">Source 1, URL</td><td data-label="Now" class="clip">&#34;https://a.example&#34;</td>`+
			`<td data-label="New" class="clip">&#34;https://b.example&#34;</td>`)
	dryRun(two, "{\"id\":\"birch\"}\n")
	require.Equal(t, http.StatusConflict, confirm(one).StatusCode, "a file was imported that is not the latest dry run")
	require.Len(t, s.api.sent(imports), 2)

	dryRun(one, "{\"id\":\"maple\"}\n")
	s.api.respond(imports, api.ImportReport{Applied: true, Created: 1})
	require.Equal(t, "/records?visibility=private", confirm(one).to())
	require.Contains(t, s.api.requests, "POST /listings/import sha256="+one+" {\"id\":\"maple\"}\n",
		"the API did not check the file")
	require.Equal(t, http.StatusConflict, confirm(one).StatusCode, "a second click imported the file again")
}

// A spreadsheet is converted: the dry run and the import are of the same lines.
func TestCSVFileIsImportedAsItsDryRunShowed(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	var sheet bytes.Buffer
	require.NoError(t, listingfile.ToCSV(bytes.NewReader(listingfile.Example), &sheet))
	s.api.respond(imports, api.ImportReport{SHA256: "3", Created: 1})
	b.uploaded("Listings.CSV", sheet.String()).requireAll(t, "would create 1")
	s.api.respond(imports, api.ImportReport{Applied: true, Created: 1})
	b.post("/import/confirm", url.Values{"sha256": {"3"}})
	sent := s.api.sent(imports)
	require.Equal(t, sent[0], sent[1])
	require.Contains(t, sent[0], `"id":"maple-transcripts"`)
	b.uploaded("broken.csv", "id,name\nx,y\n").requireAll(t, "is not a known column")
	require.Len(t, s.api.sent(imports), 2)
}

func TestRejectedLinesOfAnImportAreListed(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	s.api.respond(imports, api.ImportReport{Rejected: []api.RejectedLine{{Line: 3, ID: "maple",
		Problems: apitest.Problems("summary: must not be empty")}}})
	page := b.uploaded("new.jsonl", "{}\n")
	require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
	page.requireAll(t, "summary: must not be empty")
	require.NotContains(t, page.body, "/import/confirm")
	b.post("/import", url.Values{}).requireAll(t, "choose a file")
	b.uploaded("", "").requireAll(t, "choose a file")
}

// audited is a desk whose operator API has an act in each log.
func audited(t *testing.T, role api.Role) (*server, browser) {
	t.Helper()
	s := newServer(t)
	s.api.setRole(role)
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 10, minute, 0, 0, time.UTC) }
	s.api.respond("GET /changes", api.ListingActList{Acts: []api.IdentifiedAct{{ID: 7, Listing: "maple",
		ListingAct: api.ListingAct{At: at(1), Actor: "bob", Action: "withdrawn", Reason: "=site()"}}}})
	s.api.respond("GET /events", api.EventActList{Events: []api.PlacedEvent{{Position: 9, RecordedEvent: api.RecordedEvent{
		RecordedAt: at(3), Actor: "ann", VerificationEvent: api.VerificationEvent{ID: "e", Slug: "birch",
			Outcome: api.OutcomeVerified, Note: "all good"}}}}})
	s.api.respond("GET /audit", api.AuditList{Entries: []api.AuditEntry{{ID: 4, At: at(2), Actor: "eve",
		Action: "account.suspend", Subject: "acct", Detail: json.RawMessage(`{"reason":"abuse"}`)}}})
	return s, s.signedIn()
}

func TestAuditShowsTheLogThatIsChosen(t *testing.T) {
	s, b := audited(t, api.RoleAdmin)
	const days = "&since=2026-11-20T00%3A00%3A00Z&until=2026-11-22T00%3A00%3A00Z" // the last day counts
	for query, want := range map[string][2]string{
		"":                                     {"GET /changes limit=100", "withdrawn"},
		"record=maple":                         {"GET /changes limit=100&listing=maple", ">=site()</td>"},
		"log=review":                           {"GET /events checkType=review&limit=100", "all good"},
		"log=link-check":                       {"GET /events checkType=application-link&limit=100", "all good"},
		"log=account&account=acct&action=key.": {"GET /audit account=acct&action=key.&limit=100", "account.suspend"},
		"actor=ann&from=2026-11-20&to=2026-11-21&after=7": {"GET /changes actor=ann&before=7&limit=100" + days, "maple"},
	} {
		before := len(s.api.requests)
		b.get("/audit?"+query).requireAll(t, want[1])
		require.Equal(t, []string{want[0] + " "}, s.api.requests[before:], query)
	}
	b.get("/audit?from=yesterday").requireAll(t, "Enter a date such as 2026-11-20")
	b.get("/audit.csv?from=yesterday").requireAll(t, "Enter a date such as 2026-11-20")

	_, b = audited(t, api.RoleSupport)
	b.get("/audit?log=review").requireAll(t, "account.suspend") // the only one that the role can read
}

func TestAuditIsExported(t *testing.T) {
	s, b := audited(t, api.RoleCurator)
	s.api.respond("GET /changes", api.ListingActList{Next: 7, Acts: []api.IdentifiedAct{{ID: 7, Listing: "maple",
		ListingAct: api.ListingAct{At: s.Now(), Actor: "bob", Action: "withdrawn", Reason: "=site()"}}}})
	pages := 0
	s.api.before = func(at string) { // the second page is the last one
		if at == "GET /changes" {
			if pages++; pages == 2 {
				s.api.responses[at] = api.ListingActList{Acts: []api.IdentifiedAct{{Listing: "birch"}}}
			}
		}
	}
	file := b.get("/audit.csv")
	require.Equal(t, `attachment; filename="audit.csv"`, file.Header.Get("Content-Disposition"))
	require.Equal(t, "at,actor,action,subject,detail\n2026-11-22T09:00:00Z,bob,withdrawn,maple,'=site()\n"+
		"0001-01-01T00:00:00Z,,,birch,\n", file.body)
	require.Contains(t, s.api.requests, "GET /changes before=7&limit=1000 ")
}

func TestNavigationFollowsTheRole(t *testing.T) {
	s := newServer(t)
	for role, want := range map[api.Role][2]string{
		api.RoleCurator:   {"/queue", "Queue Candidates Records Freshness Audit"},
		api.RoleSupport:   {"/requests", "Key requests Accounts Usage Audit"},
		api.RolePublisher: {"/queue", "Queue Candidates Records Freshness Withdrawals Import Audit"},
	} {
		s.api.setRole(role)
		b := s.signedIn()
		require.Equal(t, want[0], b.get("/").to())
		_, nav, _ := strings.Cut(b.get("/help").body, "<nav")
		nav, _, _ = strings.Cut(nav, "</nav>")
		var labels []string
		for _, link := range regexp.MustCompile(`">([^<]+)</a>`).FindAllStringSubmatch(nav, -1) {
			labels = append(labels, link[1])
		}
		require.Equal(t, want[1], strings.Join(labels, " "))
	}
}

func TestUsageIsDrawnOnTheServer(t *testing.T) {
	s := newServer(t)
	s.api.respond("GET /usage", api.UsageReport{Days: []api.TierUsage{
		{Date: "2026-11-21", Tier: api.Free, Calls: 30, Failed: 2,
			Refused: map[api.CallOutcome]int{api.CallMinuteLimitReached: 5}},
		{Date: "2026-11-21", Tier: api.Commercial, Calls: 10}, {Date: "2026-11-22", Tier: api.Free, Calls: 20},
		{Date: "2020-01-01", Tier: api.Free, Calls: 1000}}})
	b := s.signedIn()
	b.get("/usage?days=7").requireAll(t, "<strong>60</strong> calls with a known key, 5 rejected, 2 failed",
		`<title>2026-11-21: 40, free 30, commercial 10</title><rect class="series-0" x="500.0" y="40.0" width="90.0" height="120.0"/>`+
			`<rect class="series-2" x="500.0" y="0.0" width="90.0" height="40.0"/>`,
		`<title>2026-11-22: 20, free 20</title><rect class="series-0" x="600.0" y="80.0"`,
		`<tr><th scope="row">2026-11-21</th><td>5</td><td>5</td></tr>`, `<th scope="col">minute limit reached</th>`)
	require.Contains(t, s.api.requests, "GET /usage days=7 ")
	s.api.respond("GET /usage", api.UsageReport{})
	b.get("/usage?days=10000").requireAll(t, "No call was rejected.")
	require.Contains(t, s.api.requests, "GET /usage days=30 ")
}

func TestFreshnessIsDrawnOnTheServer(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	s.api.respond("GET /reviews/freshness", api.Freshness{
		Now: api.FreshnessSample{Day: "2026-11-22", Verified: 3, Stale: 1}, Facts: 20, Quoted: 7,
		Ahead: []api.DueDay{{Day: "2026-11-22", Due: 4, Target: 2}},
		Links: map[api.Outcome]int{"": 1, api.OutcomeReachable: 3}})
	b.get("/freshness").requireAll(t, `<rect class="verified" x="0.0" y="40.0" width="630.0" height="120.0"/>`,
		`<rect class="target" x="0.0" y="80.0" width="630.0" height="1.0"/>`,
		`<th scope="row">never checked</th><td>1</td>`, "7 of 20 facts that reviews recorded have a quote.",
		`<p class="scale"><span>4</span><span>0</span></p>`, `<p class="dates"><span>11-22</span></p>`)
	s.api.respond("GET /reviews/freshness", api.Freshness{})
	require.Equal(t, http.StatusOK, b.get("/freshness").StatusCode)
}
