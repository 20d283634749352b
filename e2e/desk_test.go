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
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var oneTimeURL = regexp.MustCompile(`(?m)^Curation desk: (http://localhost:\d+)(/sign-in/once\?code=\S+)$`)

// TestDeskInTheBrowser walks through the curation desk as two curators do, with the keyboard alone,
// without JavaScript and on a phone. It prints what a review costs. Pictures of every page stay in
// e2e/browser/artifacts.
func TestDeskInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := os.Getenv("OPPORTUNITY_TEST_CHROMIUM")
	require.NotEmpty(t, chromium, "run the tests with scripts/with-browser, as make test does")
	artifacts, err := filepath.Abs("browser/artifacts")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir)
	candidates := filepath.Join(t.TempDir(), "candidates.jsonl")
	require.NoError(t, os.WriteFile(candidates, deskCandidates(t), 0o600))

	machine := httptest.NewServer(newReader(t, u.adminURL))
	defer machine.Close()
	desk := start(t, []string{"OPPORTUNITY_DATA_DIR=" + dir, "OPPORTUNITY_ADMIN_URL=" + machine.URL,
		"OPPORTUNITY_ACTOR=ann"},
		program(t, "opportunity"), "desk", "--listen", "127.0.0.1:0")
	var signIn []string
	eventually(t, "the desk prints its address", func() bool {
		signIn = oneTimeURL.FindStringSubmatch(desk.out.String())
		return signIn != nil
	})
	token, err := os.ReadFile(filepath.Join(dir, "operator-token"))
	require.NoError(t, err)

	cmd := exec.CommandContext(t.Context(), "node", "desk.mjs")
	cmd.Dir = "browser"
	cmd.Env = clean(
		"WALK_BASE_URL="+signIn[1], "WALK_ONCE="+signIn[2], "WALK_TOKEN="+strings.TrimSpace(string(token)),
		"WALK_CANDIDATES="+candidates,
		"WALK_API_URL="+u.url, "WALK_KEY="+u.keys["commercial"], "WALK_MACHINE="+machine.URL,
		"WALK_ARTIFACTS="+artifacts, "WALK_CHROMIUM="+chromium, "WALK_OPPORTUNITY="+program(t, "opportunity"),
		"OPPORTUNITY_ADMIN_URL="+u.adminURL, "OPPORTUNITY_DATA_DIR="+dir,
	)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	require.NotContains(t, desk.out.String(), strings.TrimSpace(string(token)),
		"the operator token is in the log of the desk")
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
	to, err := url.Parse(admin)
	require.NoError(t, err)
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

// deskCandidates returns a listings file with 30 candidates. Number 13 has only a list on GitHub as a
// source, number 14 has three sources.
func deskCandidates(t *testing.T) []byte {
	t.Helper()
	type source struct {
		URL string `json:"url"`
	}
	var file strings.Builder
	for i := range 30 {
		site := fmt.Sprintf("https://candidate-%02d.example/", i)
		sources := []source{{site}, {site + "faq"}}
		switch i {
		case 13:
			sources = []source{{"https://github.com/example/awesome-list"}}
		case 14:
			sources = append(sources, source{site + "pay"})
		}
		line, err := json.Marshal(map[string]any{
			"id": fmt.Sprintf("candidate-%02d", i), "company": map[string]any{"name": fmt.Sprintf("Candidate %02d", i),
				"website": site},
			"applicationUrl": site + "apply", "category": []string{"online", "sell", "local", "host"}[i%4],
			"summary":  "A candidate for the desk.",
			"overview": "", "startingCost": "", "workModel": "", "visibility": "private",
			"sources": sources,
		})
		require.NoError(t, err)
		file.Write(append(line, '\n'))
	}
	return []byte(file.String())
}
