package edge

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway/internal/proxy"
)

func TestRequestsThatNeedNoKey(t *testing.T) {
	type has map[string]string // headers; "": absent
	signed := []string{proxy.SignatureHeader, "s"}
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		has                has
		text               string
	}{
		{method: "OPTIONS", path: "/api/v1/opportunities", status: 204, has: has{"Allow": readMethods}},
		{method: "POST", path: "/api/jobs", status: 405, has: has{"Allow": readMethods},
			text: "allows only GET, HEAD, OPTIONS"},
		{method: "PURGE", path: "/api/jobs", status: 405, has: has{"Allow": readMethods}},
		{method: "PURGE", path: "/docs", status: 405, has: has{"Allow": readMethods}},
		{method: "PURGE", path: "/records/a", status: 405, has: has{"Allow": readMethods}},
		{method: "PURGE", path: "/mcp", status: 405, has: has{"Allow": http.MethodPost}},
		{method: "PURGE", path: "/nothing", status: 404, has: has{"Allow": ""}},
		{method: "PURGE", path: "/account", status: 200, has: has{"Allow": ""}, text: "received"}, // up to authquota
		{method: "GET", path: "/api/jobs", status: 401, has: has{"Www-Authenticate": "Bearer"}, text: "missing_api_key"},
		{method: "HEAD", path: "/api/v1/opportunities?country=zzz", status: 401, has: has{"Www-Authenticate": "Bearer"}},
		{method: "GET", path: "/nothing", status: 404, text: "nothing at this address"},
		{method: "OPTIONS", path: "/nothing", status: 404, has: has{"Allow": ""}},
		{method: "GET", path: "/internal/v1/listings", status: 404},
		{method: "GET", path: "/operator/v1/keys", status: 404},
		{method: "GET", path: "/readyz", status: 404},
		{method: "GET", path: "/metrics", status: 404},
		{method: "GET", path: "/do%63s", status: 404},
		{method: "GET", path: "/docs", status: 200, has: has{"Allow": "", "Strict-Transport-Security": "max-age=31536000"}},
		{method: "GET", path: string(opLogInfo), body: "x", status: 400, text: "must not have a body"},
		{method: "GET", path: "/account/plan/?a=b", status: 308, has: has{"Location": "/account/plan?a=b",
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}},
		{method: "GET", path: "/account/plan/", status: 308, has: has{"Location": "/account/plan"}},
		{method: "GET", path: string(opWebhook), headers: signed, status: 405, has: has{"Allow": http.MethodPost}},
		{method: "POST", path: string(opWebhook), status: 400, text: "Stripe-Signature header is missing"},
		{method: "POST", path: string(opWebhook), headers: signed, status: 200, text: "received"},
		// Errors are pages for browsers.
		{method: "GET", path: "/nothing", headers: []string{"Accept", htmlType}, status: 404,
			has: has{"Content-Type": htmlType, "X-Content-Type-Options": "nosniff"}},
		{method: "GET", path: "/nothing", headers: []string{"Accept", "*/*"}, status: 404,
			has: has{"Content-Type": jsonType, "X-Content-Type-Options": ""}},
		{method: "GET", path: "/api/nothing", headers: []string{"Accept", htmlType}, status: 404,
			has: has{"Content-Type": jsonType}},
		{method: "GET", path: "/billing/sandbox/", status: 404,
			has: has{"Content-Type": jsonType, "X-Content-Type-Options": "nosniff"}},
	} {
		e := newEdge(t)
		e.HTTPS, e.Billing = true, replies(t, http.StatusOK, "received")
		e.Account = e.Billing
		w := e.send(t, c.method, c.path, c.body, c.headers...)
		require.Equal(t, c.status, w.Code, "%s %s: %s", c.method, c.path, w.Body)
		for name, value := range c.has {
			require.Equal(t, value, w.Header().Get(name), "%s of %s %s", name, c.method, c.path)
		}
		require.Contains(t, w.Body.String(), c.text)
	}
	for _, path := range []string{"/billing/sandbox", string(opWebhook)} {
		require.Equal(t, http.StatusNotFound, newEdge(t).send(t, http.MethodPost, path, "").Code, "no plan is sold")
	}
	require.Empty(t, newEdge(t).send(t, http.MethodGet, "/docs", "").Header().Get("Strict-Transport-Security"))
}

// A form or an event is forwarded whole or not at all.
func TestBodiesHaveTheLimitOfTheirKind(t *testing.T) {
	for path, limit := range map[string]int{"/account/keys": 64 << 10, "/billing/sandbox": 64 << 10,
		string(opWebhook): 256 << 10} {
		largest := strings.Repeat("a", limit)
		for _, c := range []struct {
			body io.Reader
			text string // of the error; empty: the body is forwarded
		}{
			{strings.NewReader(largest), ""},
			{strings.NewReader(largest + "a"), fmt.Sprintf("at most %d KiB", limit>>10)},
			{io.MultiReader(strings.NewReader(largest + "a")), fmt.Sprintf("at most %d KiB", limit>>10)}, // of unknown length
			{io.MultiReader(strings.NewReader("half"), broken{}), "did not arrive completely"},
		} {
			e, received := newEdge(t), ""
			e.Account = behind(t, func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				received = string(body)
				return reply(http.StatusOK, strings.NewReader("page"), "Content-Type", htmlType), err
			})
			e.Billing = e.Account
			h := e.handler(t)
			r, w := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, c.body), httptest.NewRecorder()
			r.Header.Set(proxy.SignatureHeader, "s")
			h.ServeHTTP(w, r)
			require.Contains(t, w.Body.String(), c.text)
			require.Equal(t, c.text == "", w.Code == http.StatusOK, w.Body)
			require.Equal(t, c.text == "", received == largest, path)
		}
	}
}

// The gateway compresses what its service does not, except pages, which may have secrets.
func TestCompression(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	for _, c := range []struct {
		method, path, coding, vary string
	}{
		{"GET", "/account/static/site.css", "gzip", "Accept-Encoding"},
		{"GET", "/account/security", "", "Accept-Encoding"},
		{"HEAD", "/account/static/site.css", "", "Accept-Encoding"},
		{"GET", "/api/v1/opportunities/a/history", "gzip", "Accept-Encoding Authorization"},
		{"GET", "/api/v1/opportunities", "", "Authorization"}, // the catalog compresses it
	} {
		e := newEdge(t)
		e.admits(t, principal, nil)
		e.Account = replies(t, http.StatusOK, long, "Content-Type", htmlType, "Content-Length", "5000")
		e.History = replies(t, http.StatusOK, long, "Content-Type", jsonType, "Vary", "Authorization", "Etag", "a")
		e.Catalog = e.History
		w := e.send(t, c.method, c.path, "", "Accept-Encoding", "gzip", "Authorization", bearer())
		require.Equal(t, c.coding, w.Header().Get("Content-Encoding"), c)
		require.Equal(t, c.vary, strings.Join(w.Header()["Vary"], " "), c)
		require.Empty(t, w.Header().Get("Content-Length"), "unknown if a GET might be compressed")
		if c.coding != "" {
			unzip, err := gzip.NewReader(w.Body)
			require.NoError(t, err)
			plain, err := io.ReadAll(unzip)
			require.NoError(t, err)
			require.Equal(t, long, string(plain))
		}
	}
	e := newEdge(t)
	e.Account = replies(t, http.StatusOK, long, "Content-Length", "5000")
	require.Equal(t, "5000", e.send(t, http.MethodHead, "/account/static/site.css", "").Header().Get("Content-Length"),
		"without Accept-Encoding")
	require.Equal(t, http.StatusNotFound, newEdge(t).send(t, http.MethodHead, "/nothing", "", "Accept-Encoding",
		"gzip").Code)
}

func TestForwardedHeadersCountOnlyFromTrustedProxies(t *testing.T) {
	e := newEdge(t)
	e.Trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		remote, forwarded, client string
		traced                    bool
	}{
		{"192.0.2.1:1", "198.51.100.1", "192.0.2.1", false},
		{"10.0.0.1:1", "198.51.100.1", "198.51.100.1", true},
		{"[::ffff:10.0.0.1]:1", "198.51.100.1", "198.51.100.1", true},
		{"10.0.0.1:1", "203.0.113.1, 198.51.100.1", "198.51.100.1", true},
		{"10.0.0.1:1", "198.51.100.1,10.0.0.2", "198.51.100.1", true},
		{"10.0.0.1:1", "10.0.0.2", "10.0.0.2", true},
		{"10.0.0.1:1", "198.51.100.1, invalid, 10.0.0.2", "10.0.0.2", true},
		{"10.0.0.1:1", "", "10.0.0.1", true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		for _, name := range []string{"Traceparent", "Tracestate", "Baggage", "X-Forwarded-Proto", api.RequestIDHeader} {
			r.Header.Set(name, "x")
		}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		e.strip(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			require.Equal(t, c.client, e.client(r).String(), c)
			for _, name := range []string{"Traceparent", "Tracestate", "Baggage", "X-Forwarded-Proto"} {
				require.Equal(t, c.traced, r.Header.Get(name) != "", "%s of %s", name, c.remote)
			}
			require.Empty(t, r.Header.Get(api.RequestIDHeader))
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}

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
