package desk_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
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
	s.api.respond("POST /listings/import", api.ImportPreview{DryRun: true, Created: 1, Changes: []api.ListingChange{{ID: "maple", Change: api.ListingCreated}}})
	page := b.uploaded("new.jsonl", "{\"id\":\"maple\"}\n")
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Contains(t, page.body, "would create 1")
	hash := page.body[strings.Index(page.body, `name="sha256" value="`)+len(`name="sha256" value="`):][:64]

	other := b.uploaded("other.jsonl", "{\"id\":\"birch\"}\n")
	require.Equal(t, http.StatusOK, other.StatusCode)
	resp := b.post("/import/confirm", url.Values{"sha256": {hash}})
	require.Equal(t, http.StatusConflict, resp.StatusCode, "a file was imported that is not the latest dry run")
	require.Len(t, s.api.sent("POST /listings/import"), 2)

	require.Equal(t, http.StatusOK, b.uploaded("new.jsonl", "{\"id\":\"maple\"}\n").StatusCode)
	s.api.respond("POST /listings/import", api.ImportReport{Applied: true, Created: 1})
	require.Equal(t, http.StatusSeeOther, b.post("/import/confirm", url.Values{"sha256": {hash}}).StatusCode)
	sent := s.api.sent("POST /listings/import")
	require.Equal(t, "{\"id\":\"maple\"}\n", sent[len(sent)-1])
	require.Equal(t, http.StatusConflict, b.post("/import/confirm", url.Values{"sha256": {hash}}).StatusCode, "a second click imported the file again")
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
