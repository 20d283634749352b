package edge

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/usage"
)

const (
	jsonType = "application/json"
	htmlType = "text/html; charset=utf-8"
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

func TestOutcomeOfARequestIsCounted(t *testing.T) {
	failing := func(err error) roundTrip { return func(*http.Request) (*http.Response, error) { return nil, err } }
	responds := func(status int) roundTrip {
		return func(*http.Request) (*http.Response, error) {
			return reply(status, strings.NewReader(""), "Content-Type", htmlType), nil
		}
	}
	for _, c := range []struct {
		serve   roundTrip
		outcome string
	}{
		{responds(200), served}, {responds(403), rejected}, {responds(500), upstreamFault},
		{failing(errors.New("no route")), upstreamFault}, {failing(context.Canceled), rejected},
		{func(*http.Request) (*http.Response, error) { panic("bug") }, ourFault},
	} {
		e := newEdge(t)
		var err error
		e.Pages, err = newPages() // counts only this request
		require.NoError(t, err)
		e.Account = behind(t, c.serve)
		e.send(t, http.MethodGet, "/account", "")
		require.Equal(t, map[string]float64{c.outcome + " /account " + noTier: 1},
			series(t, e.Telemetry.Registry, "gateway_requests_total"))
		require.Contains(t, availability(t, e), "nothing measured yet", "a page is no call")
	}
}

// availability returns the row of the status page with the share of calls that were served.
func availability(t *testing.T, e Edge) string {
	t.Helper()
	require.NoError(t, e.Pages.ShowHealth(docsite.Health{}))
	w := httptest.NewRecorder()
	require.NoError(t, e.Pages.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/status", nil)))
	_, row, _ := strings.Cut(w.Body.String(), "Availability: ")
	row, _, _ = strings.Cut(row, "</tr>")
	return row
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

// Each call of an existing key is recorded once with its outcome. It is charged if the client got a
// billable response, and refunded once otherwise.
func TestOutcomeAndChargeOfACall(t *testing.T) {
	past := time.Now().Add(-time.Second)
	gone := errors.New("no route")
	for name, c := range map[string]struct {
		method, path, key string // default: GET of the list with a key of acc_a
		body              string
		change            func(*api.Principal)
		status            int // of the response of the service; default: 200
		err               error
		cut               bool // the response of the service ends early
		outcome           api.CallOutcome
		charged           bool
	}{
		"served":       {outcome: api.CallServed, charged: true},
		"HEAD":         {method: http.MethodHead, outcome: api.CallServed, charged: true},
		"not modified": {status: 304, outcome: api.CallServed, charged: true},
		"not found":    {status: 404, outcome: api.CallNotFound, charged: true},
		"invalid":      {status: 400, outcome: api.CallBadRequest},
		"invalid, cut": {status: 400, cut: true, outcome: api.CallFailed},
		"with a body":  {body: "x", outcome: api.CallBadRequest},
		"cursor ended": {status: 410, outcome: api.CallBadRequest},
		"paid":         {status: 402, outcome: api.CallSubscriptionRequired},
		"fault":        {status: 500, outcome: api.CallFailed},
		"unavailable":  {status: 503, outcome: api.CallFailed},
		"redirect":     {status: 302, outcome: api.CallFailed},
		"unreachable":  {err: gone, outcome: api.CallFailed},
		"disconnected": {err: context.Canceled, outcome: api.CallFailed},
		"cut":          {cut: true, outcome: api.CallFailed},
		"expired":      {change: func(p *api.Principal) { p.ExpiresAt = past }, outcome: api.CallExpiredAPIKey},
		"revoked":      {change: func(p *api.Principal) { p.RevokedAt = &past }, outcome: api.CallRevokedAPIKey},
		"suspended":    {change: func(p *api.Principal) { p.Suspended = true }, outcome: api.CallAccountSuspended},
		"minute":       {change: func(p *api.Principal) { p.Limits.PerMinute = 1 }, outcome: api.CallMinuteLimitReached},
		"day":          {change: func(p *api.Principal) { p.Limits.PerDay = 5 }, outcome: api.CallDailyLimitReached},
		"POST":         {method: http.MethodPost}, // not a call, as those below
		"OPTIONS":      {method: http.MethodOptions},
		"no path":      {path: "/nowhere"},
		"malformed":    {key: "Bearer x"},
		"unknown":      {key: "Bearer " + apikey.Generate(apikey.Live).Reveal()},
	} {
		t.Run(name, func(t *testing.T) {
			e, recorded := newEdge(t), map[api.CallOutcome]int{}
			e.Usage = usage.New(func(_ context.Context, b api.UsageBatch) error {
				for _, c := range b.Counts {
					recorded[c.Outcome] += c.Calls
				}
				return nil
			}, e.Telemetry.Log)
			counters := e.admits(t, func() api.Principal {
				p := principal()
				if c.change != nil {
					c.change(&p)
				}
				return p
			}, nil).Client()
			day := counter.Day(counter.DayOf(time.Now()))
			require.NoError(t, counters.HSet(t.Context(), day, counter.ServiceField, 5, "acc_a", 5).Err())
			require.NoError(t, counters.LPush(t.Context(), counter.Window("acc_a"), time.Now().UnixMicro()).Err())
			var answer io.Reader = strings.NewReader("{}")
			if c.cut {
				answer = broken{}
			}
			e.Catalog = behind(t, func(*http.Request) (*http.Response, error) {
				return reply(cmp.Or(c.status, 200), answer, "Content-Type", jsonType), c.err
			})
			call := func() {
				e.send(t, cmp.Or(c.method, http.MethodGet), cmp.Or(c.path, "/api/v1/opportunities"), c.body, "Authorization",
					cmp.Or(c.key, bearer()))
			}
			if c.cut {
				require.PanicsWithValue(t, http.ErrAbortHandler, call)
			} else {
				call()
			}
			want, used := map[api.CallOutcome]int{}, "5"
			if c.outcome != "" {
				want[c.outcome] = 1
			}
			if c.charged {
				used = "6"
			}
			require.NoError(t, e.Usage.Flush(t.Context()))
			require.Equal(t, want, recorded)
			require.Equal(t, used, counters.HGet(t.Context(), day, "acc_a").Val())
		})
	}
}

// closer counts how often a body is closed.
type closer struct {
	io.ReadCloser
	closed *int
}

func (c closer) Close() error {
	*c.closed++
	return c.ReadCloser.Close()
}

func TestExplorerMakesTheCallThatAuthquotaNames(t *testing.T) {
	path := api.ExplorerPath + "/list"
	call := func(target string) string {
		c, err := json.Marshal(api.ExplorerCall{Principal: principal(), Target: target})
		require.NoError(t, err)
		return string(c)
	}
	var result api.ExplorerResult
	var used string // calls of the account today
	closed := 0
	explore := func(body io.Reader, header string) *httptest.ResponseRecorder {
		t.Helper()
		e := newEdge(t)
		counters := e.admits(t, principal, nil).Client()
		result = api.ExplorerResult{}
		e.Catalog = behind(t, func(*http.Request) (*http.Response, error) {
			return reply(200, body, "Content-Type", jsonType), nil
		})
		e.Account = behind(t, func(r *http.Request) (*http.Response, error) {
			if r.Header.Get(api.ExplorerHeader) == "" {
				form := reply(200, strings.NewReader("form"), "Content-Type", htmlType, api.ExplorerHeader, header)
				form.Body = closer{form.Body, &closed}
				return form, nil
			}
			require.NoError(t, json.NewDecoder(r.Body).Decode(&result))
			return reply(200, strings.NewReader("result"), "Content-Type", htmlType), nil
		})
		closed = 0
		w := e.send(t, http.MethodPost, path, "a=b")
		require.Equal(t, 1, closed, "the connection to authquota is free again")
		used = counters.HGet(t.Context(), counter.Day(counter.DayOf(time.Now())), "acc_a").Val()
		return w
	}
	require.Equal(t, "form", explore(nil, "").Body.String(), "a problem of the form")
	for _, invalid := range []string{"{", call("no path")} {
		require.Equal(t, http.StatusInternalServerError, explore(nil, invalid).Code, invalid)
	}

	require.Equal(t, "result", explore(strings.NewReader("{}"), call("/api/v1/opportunities")).Body.String())
	require.Equal(t, []any{"a=b", 200, "{}", 2, true, "1"},
		[]any{string(result.Form), result.Status, string(result.Body), result.Size, result.Charged, used})
	for _, other := range []string{"/docs", "/account"} {
		explore(strings.NewReader("{}"), call(other))
		require.Equal(t, []any{404, false}, []any{result.Status, result.Charged}, "only calls of the API")
	}
	explore(broken{}, call("/api/v1/opportunities"))
	require.Equal(t, []any{503, false}, []any{result.Status, result.Charged}, "a response that ends early")
	explore(strings.NewReader(strings.Repeat("a", api.MaxExplorerBody+10)), call("/api/v1/opportunities"))
	require.Equal(t, []int{api.MaxExplorerBody, api.MaxExplorerBody + 10}, []int{len(result.Body), result.Size})
}
