package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// TestEvidenceFromCandidateToChangedPage takes a candidate in the browser from its import to a
// verified and published record with quotes, and through the next day, on which the link checker
// finds that one of its three pages has changed.
func TestEvidenceFromCandidateToChangedPage(t *testing.T) {
	t.Parallel()
	chromium := os.Getenv("OPPORTUNITY_TEST_CHROMIUM")
	require.NotEmpty(t, chromium, "run the tests with scripts/with-browser, as make test does")
	artifacts, err := filepath.Abs("browser/artifacts")
	require.NoError(t, err)
	pages := &changingPages{pages: map[string]string{
		"/":      "Maker Market connects people who make things with people who buy them, in every province.",
		"/pay":   "Sellers earn $20 to $25 CAD per hour on average. Payment is weekly.",
		"/faq":   "Can I work from home? Yes, all work is remote and you choose your hours.",
		"/who":   "No experience is required. You must be 18 and a resident of Canada. Residents of Quebec cannot apply.",
		"/apply": "Apply here. You set your own hours. Tell us what you make, and we write back within two days.",
	}}
	site := httptest.NewServer(pages)
	defer site.Close()
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir, "OPPORTUNITY_LINK_CHECKS=false")
	machine := httptest.NewServer(linkChecker(t, site.URL, dir, pages))
	defer machine.Close()
	desk := start(t, []string{"OPPORTUNITY_DATA_DIR=" + dir, "OPPORTUNITY_ADMIN_URL=" + u.adminURL,
		"OPPORTUNITY_ACTOR=ann"},
		program(t, "opportunity"), "desk", "--listen", "127.0.0.1:0")
	var signIn []string
	eventually(t, "the desk prints its address", func() bool {
		signIn = oneTimeURL.FindStringSubmatch(desk.out.String())
		return signIn != nil
	})

	cmd := exec.CommandContext(t.Context(), "node", "evidence.mjs")
	cmd.Dir = "browser"
	cmd.Env = clean(
		"WALK_BASE_URL="+signIn[1], "WALK_ONCE="+signIn[2], "WALK_CANDIDATES="+makerFile(t, site.URL), "WALK_SITE="+site.URL,
		"WALK_MACHINE="+machine.URL,
		"WALK_API_URL="+u.url, "WALK_KEY="+u.keys[api.Commercial], "WALK_ARTIFACTS="+artifacts, "WALK_CHROMIUM="+chromium,
		"WALK_OPPORTUNITY="+program(t, "opportunity"), "OPPORTUNITY_ADMIN_URL="+u.adminURL, "OPPORTUNITY_DATA_DIR="+dir,
	)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

// changingPages serves pages of plain text.
type changingPages struct {
	mu    sync.Mutex
	pages map[string]string
}

func (p *changingPages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, found := p.pages[r.URL.Path]
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	fmt.Fprintf(w, "<!doctype html><title>Maker Market</title><h1>Maker Market</h1><p>%s</p><p>%s</p>", text,
		strings.Repeat("Makers list what they make, set their prices, and ship to buyers. ", 5))
}

func (p *changingPages) change(path, from, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages[path] = strings.ReplaceAll(p.pages[path], from, to)
}

// linkChecker runs the link checker on the data directory at POST /today, and at POST /tomorrow as
// if a day had passed, on which the pages about pay and applications changed. The response is what
// the checker prints.
func linkChecker(t *testing.T, site, dir string, pages *changingPages) http.Handler {
	t.Helper()
	address, err := url.Parse(site)
	require.NoError(t, err)
	run := func(w http.ResponseWriter, r *http.Request) {
		cmd := exec.CommandContext(r.Context(), program(t, "history"), "check-links")
		cmd.Env = clean("OPPORTUNITY_DATABASE_URL=sqlite://"+filepath.Join(dir, "history.db"),
			"OPPORTUNITY_PUBLIC_URL=http://localhost:8080", "OPPORTUNITY_LOG_LEVEL=ERROR",
			"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS=127.0.0.1/32", "OPPORTUNITY_LINK_CHECK_PORTS="+address.Port(),
			"OPPORTUNITY_LINK_CHECK_GAP=1ms")
		out, err := cmd.CombinedOutput()
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write(out)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /today", run)
	mux.HandleFunc("POST /tomorrow", func(w http.ResponseWriter, r *http.Request) {
		pages.change("/pay", "$20 to $25", "$18 to $19")
		pages.change("/apply", "Apply here.", "Apply now.")
		if _, err := storetest.Plain(t, filepath.Join(dir, "history.db")).ExecContext(r.Context(),
			"UPDATE pages SET read_at = read_at - 90000000000"); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, err.Error())
			return
		}
		run(w, r)
	})
	return mux
}

// makerFile returns a listings file with a candidate whose pages are on site.
func makerFile(t *testing.T, site string) string {
	t.Helper()
	line, err := json.Marshal(map[string]any{
		"id": "maker-market", "company": map[string]any{"name": "Maker Market", "website": site + "/"},
		"applicationUrl": site + "/apply", "category": "sell",
		"summary": "A market for makers.", "overview": "", "startingCost": "", "workModel": "", "visibility": "private",
		"sources": []map[string]any{{"url": site + "/pay", "checkedAt": "2025-03-01"}, {"url": site + "/faq"},
			{"url": site + "/who"}},
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "candidates.jsonl")
	require.NoError(t, os.WriteFile(file, append(line, '\n'), 0o600))
	return file
}
