package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	_, settings := u.desk(t, u.adminURL)
	u.walk(t, "evidence.mjs", append(settings, "WALK_SITE="+site.URL, "WALK_MACHINE="+machine.URL,
		"WALK_CANDIDATES="+candidatesFile(t, map[string]any{
			"id": "maker-market", "company": map[string]any{"name": "Maker Market", "website": site.URL + "/"},
			"applicationUrl": site.URL + "/apply", "category": api.Sell, "summary": "A market for makers.",
			"sources": []map[string]any{{"url": site.URL + "/pay", "checkedAt": "2025-03-01"}, {"url": site.URL + "/faq"},
				{"url": site.URL + "/who"}},
		}))...)
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
