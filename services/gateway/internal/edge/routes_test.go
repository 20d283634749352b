package edge

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// target is the operation of a path and the path for its service.
type target struct {
	operation

	path string
}

// router returns a function that requests a path. It returns the target that gin and the steps
// before the handler find, and the status.
func router(t *testing.T) func(path string) (target, int) {
	var found target
	e := newEdge(t)
	e.Billing, e.meters = replies(t, http.StatusOK, ""), newMeters(prometheus.NewRegistry(), nil)
	engine := newEngine()
	for _, r := range e.routes() {
		r.access, r.handle = open, func(x *exchange) error {
			found = target{x.operation, x.path}
			x.end(http.StatusOK)
			return nil
		}
		engine.Any(r.pattern, e.steps(r)...)
	}
	return func(path string) (target, int) {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), httptest.NewRecorder()
		var err error
		if r.URL, err = url.Parse(path); err != nil || r.URL.Host != "" {
			r.URL = &url.URL{Path: path} // Parse reads the first segment of //a/b as a host; a server does not
		}
		found = target{}
		engine.ServeHTTP(w, r)
		return found, w.Code
	}
}

func TestPathsOfCalls(t *testing.T) {
	route := router(t)
	const v1 = "/api/v1/opportunities"
	for path, want := range map[string]target{
		v1:                           {opList, v1},
		"/api/jobs":                  {opAlias, "/api/jobs"},
		v1 + "/a-b-1":                {opDetail, v1 + "/a-b-1"},
		v1 + "/a-b-1/history":        {opHistory, v1 + "/a-b-1/history"},
		"/api/v1/changes":            {opChanges, "/api/v1/changes"},
		"/api/v1/search":             {opSearch, "/api/v1/search"},
		"/api/v1/changes/":           {},
		v1 + "/history":              {opDetail, v1 + "/history"},
		v1 + "/%61":                  {opDetail, v1 + "/a"},
		v1 + "/a+b%2D":               {opDetail, v1 + "/a+b-"},
		v1 + "/NOT%20a%20slug":       {opDetail, v1 + "/NOT%20a%20slug"},
		v1 + "/a%0d%0aX-Evil:%201":   {opDetail, v1 + "/a%0D%0AX-Evil:%201"},
		v1 + "/a%3Fcountry=CA":       {opDetail, v1 + "/a%3Fcountry=CA"},
		v1 + "/%2E%2E%2E/history":    {opHistory, v1 + "/.../history"},
		v1 + "/":                     {},
		v1 + "/a/":                   {},
		v1 + "/a/History":            {},
		v1 + "/.":                    {},
		v1 + "/../opportunities":     {},
		v1 + "/%2e%2e":               {},
		v1 + "/a%2Fhistory":          {},
		"/api%2Fv1/opportunities":    {},
		"//api/v1/opportunities":     {},
		"/api/v1/x/../opportunities": {},
		"/API/v1/opportunities":      {},
		"/api/jobs/":                 {},
		"/internal/v1/summaries":     {},
	} {
		found, status := route(path)
		require.Equal(t, want, found, path)
		require.Equal(t, want == target{}, status == http.StatusNotFound, path)
	}
}

func TestPathsOfPages(t *testing.T) {
	route := router(t)
	const wellKnown = "/.well-known/opportunity-history"
	for path, want := range map[string]struct {
		status int
		path   string
	}{
		"/account":                    {200, "/account"},
		"/account/keys/key_1/rotate":  {200, "/account/keys/key_1/rotate"},
		"/account/reset?token=a/../b": {200, "/account/reset"},
		"/account/static/site.css":    {200, "/account/static/site.css"},
		"/account/":                   {308, ""},
		"/account/plan/":              {308, ""},
		"/account//keys":              {404, ""},
		"/account/../internal/v1/x":   {404, ""},
		"/account/%2e%2e/internal":    {404, ""},
		"/account/a%2Fb":              {404, ""},
		"/account/a%20b":              {404, ""},
		"/account/%61":                {404, ""},
		"/accounts":                   {404, ""},
		"/billing/stripe/webhook":     {405, ""},
		"/billing/sandbox":            {200, "/billing/sandbox"},
		"/billing/sandbox/pay/1":      {200, "/billing/sandbox/pay/1"},
		"/billing/sandbox/":           {404, ""},
		"/billing/sandbox/%2e%2e/x":   {404, ""},
		"/billing/stripe/webhook/":    {404, ""},
		"/billing/internal/v1/x":      {404, ""},
		"/billing":                    {404, ""},
		wellKnown:                     {200, wellKnown},
		wellKnown + "/log/checkpoint": {200, wellKnown + "/log/checkpoint"},
		wellKnown + "/log/2-a/tile/0": {200, wellKnown + "/log/2-a/tile/0"},
		wellKnown + "/2026-11-20":     {404, ""},
		wellKnown + "/":               {404, ""},
		wellKnown + "/a%2Fb":          {404, ""},
		"":                            {404, ""},
	} {
		found, status := route(path)
		require.Equal(t, want.status, status, path)
		require.Equal(t, want.path, found.path, path)
	}
}

// For any id, the path for the service matches the same operation with the same id.
func TestPathForTheServiceIsSafe(t *testing.T) {
	route := router(t)
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.SampledFrom([]string{
			"/api/v1/opportunities/", "/account/", "/billing/sandbox/", "/records/", "/.well-known/opportunity-history/",
		}).Draw(t, "top")
		raw := top + rapid.StringMatching(`([a-z./?#;%&+ -]|%[0-9A-Fa-f]{2}){0,12}`).Draw(t, "rest")
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return // net/http rejects such a request
		}
		first, status := route(u.String())
		if status != http.StatusOK {
			require.Empty(t, first.path)
			return
		}
		if !strings.Contains(string(first.operation), "{id}") {
			require.Equal(t, u.EscapedPath(), first.path)
		}
		again, err := url.ParseRequestURI(first.path)
		require.NoError(t, err)
		require.Empty(t, again.RawQuery)
		second, _ := route(again.String())
		require.Equal(t, first, second)
	})
}
