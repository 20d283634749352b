package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// TestDeskInTheBrowser walks through the curation desk as two curators do, with the keyboard alone,
// without JavaScript and on a phone. It prints what a review costs. Pictures of every page stay in
// e2e/browser/artifacts.
func TestDeskInTheBrowser(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir)
	machine := httptest.NewServer(newReader(t, u.adminURL))
	defer machine.Close()
	desk, settings := u.desk(t, machine.URL)
	operator := strings.TrimSpace(text(t, filepath.Join(dir, "operator-token")))
	u.walk(t, "desk.mjs", append(settings, "WALK_TOKEN="+operator, "WALK_MACHINE="+machine.URL,
		"WALK_CANDIDATES="+deskCandidates(t))...)
	require.NotContains(t, desk.out.String(), operator, "the operator token is in the log of the desk")
}

// reader is an admin listener whose review sheets also have what a machine found on pages that do
// not exist here.
type reader struct {
	*httputil.ReverseProxy

	mu    sync.Mutex
	found map[string]map[string]json.RawMessage // members of the sheet, by listing
}

func newReader(t *testing.T, admin string) http.Handler {
	t.Helper()
	to := storetest.Must(url.Parse(admin))(t)
	r := &reader{found: map[string]map[string]json.RawMessage{}}
	r.ReverseProxy = &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Header.Del("Accept-Encoding")
	}, ModifyResponse: r.add}
	mux := http.NewServeMux()
	mux.Handle("/", r)
	mux.HandleFunc("POST /found/{id}", func(w http.ResponseWriter, req *http.Request) {
		var members map[string]json.RawMessage
		if json.NewDecoder(req.Body).Decode(&members) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.found[req.PathValue("id")] = members
	})
	return mux
}

func (r *reader) add(resp *http.Response) error {
	r.mu.Lock()
	found := r.found[strings.TrimPrefix(resp.Request.URL.Path, "/operator/v1/reviews/records/")]
	r.mu.Unlock()
	if found == nil || resp.Request.Method != http.MethodGet {
		return nil
	}
	var sheet map[string]json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&sheet); err != nil {
		return err
	}
	maps.Copy(sheet, found)
	body, err := json.Marshal(sheet)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return err
}

// deskCandidates writes a listings file with 30 candidates and returns its path. Number 13 has only
// a list on GitHub as a source, number 14 has three sources.
func deskCandidates(t *testing.T) string {
	t.Helper()
	type source = map[string]any
	var lines bytes.Buffer
	for i := range 30 {
		site := fmt.Sprintf("https://candidate-%02d.example/", i)
		sources := []source{{"url": site}, {"url": site + "faq"}}
		switch i {
		case 13:
			sources = []source{{"url": "https://github.com/example/awesome-list"}}
		case 14:
			sources = append(sources, source{"url": site + "pay"})
		}
		require.NoError(t, json.NewEncoder(&lines).Encode(map[string]any{
			"id": fmt.Sprintf("candidate-%02d", i), "company": map[string]any{"name": fmt.Sprintf("Candidate %02d", i),
				"website": site},
			"applicationUrl": site + "apply", "category": api.Categories[i%len(api.Categories)],
			"summary": "A candidate for the desk.", "sources": sources,
		}))
	}
	file := filepath.Join(t.TempDir(), "candidates.jsonl")
	require.NoError(t, os.WriteFile(file, lines.Bytes(), 0o600))
	return file
}

// TestInTheBrowser walks through the account pages as a person does, in Chromium. "make pictures"
// saves pictures of every page in e2e/browser/artifacts, at desktop and phone width.
func TestInTheBrowser(t *testing.T) {
	t.Parallel()
	for _, walk := range []string{"walk.mjs", "plain.mjs", "plan.mjs"} {
		t.Run(walk, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			u := up(t, dir, "OPPORTUNITY_AUTO_APPROVE=false")
			u.walk(t, walk, "WALK_BASE_URL="+u.url, "WALK_MAIL_DIR="+filepath.Join(dir, "mail"))
		})
	}
}

func (u upProcess) walk(t *testing.T, script string, settings ...string) {
	t.Helper()
	chromium := os.Getenv("OPPORTUNITY_TEST_CHROMIUM")
	require.NotEmpty(t, chromium, "run the tests with scripts/with-browser, as make test does")
	artifacts := storetest.Must(filepath.Abs("browser/artifacts"))(t)
	t.Log(command(t, "browser", append(settings, "WALK_ARTIFACTS="+artifacts, "WALK_CHROMIUM="+chromium,
		"WALK_OPPORTUNITY="+program(t, "opportunity"), "WALK_API_URL="+u.url, "WALK_KEY="+u.keys[api.Commercial],
		"OPPORTUNITY_ADMIN_URL="+u.adminURL, "OPPORTUNITY_DATA_DIR="+u.dir), "node", script))
}

var oneTimeURL = regexp.MustCompile(`(?m)^Curation desk: (http://localhost:\d+)(/sign-in/once\?code=\S+)$`)

// desk starts a curation desk that calls the admin listener at admin. It returns the settings of a
// walk for its address and its sign-in link.
func (u upProcess) desk(t *testing.T, admin string) (desk *process, settings []string) {
	t.Helper()
	desk = start(t, []string{"OPPORTUNITY_DATA_DIR=" + u.dir, "OPPORTUNITY_ADMIN_URL=" + admin, "OPPORTUNITY_ACTOR=ann"},
		program(t, "opportunity"), "desk", "--listen", "127.0.0.1:0")
	eventually(t, "the desk prints its address", func() bool {
		if found := oneTimeURL.FindStringSubmatch(desk.out.String()); found != nil {
			settings = []string{"WALK_BASE_URL=" + found[1], "WALK_ONCE=" + found[2]}
		}
		return settings != nil
	})
	return desk, settings
}
