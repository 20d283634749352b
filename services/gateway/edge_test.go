package gateway_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

// Charge and rate limit headers of each kind of response.
func TestChargeByResponse(t *testing.T) {
	w, gw, key := startWithKey(t)
	const errorBody = `{"error":{"code":"invalid_parameter","message":"no"},"documentation":"https://x.example"}`
	abort := func(rw http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		upstream http.HandlerFunc
		request  request
		status   int
		code     string
		charged  int
	}{
		"200":         {respond(200, `{}`), request{}, 200, "", 1},
		"200 to HEAD": {respond(200, `{}`), request{method: http.MethodHead}, 200, "", 1},
		"304":         {respond(304, ""), request{}, 304, "", 1},
		"404 of a record": {respond(404, errorBody), request{path: "/api/v1/opportunities/unknown"}, 404,
			"invalid_parameter", 1},
		"410": {respond(410, errorBody), request{path: "/api/v1/changes?after=x"}, 410,
			"invalid_parameter", 0},
		"404 of a malformed id": {respond(404, errorBody), request{path: "/api/v1/opportunities/NOT%20A%20SLUG"},
			404, "invalid_parameter", 1},
		"400": {respond(400, errorBody), request{}, 400, "invalid_parameter", 0},
		"402": {respond(402, errorBody), request{path: "/api/v1/opportunities/a/history"}, 402,
			"invalid_parameter", 0},
		"body": {respond(200, `{}`), request{body: strings.NewReader("x")}, 400, "body_not_allowed",
			0},
		"body of unknown length": {respond(200, `{}`), request{body: io.MultiReader(strings.NewReader("x"))}, 400,
			"body_not_allowed", 0},
		"500 of a service":            {respond(500, `{"secret":"driver text"}`), request{}, 500, "internal_error", 0},
		"503 of a service":            {respond(503, errorBody), request{}, 503, "service_unavailable", 0},
		"502 of an intermediary":      {respond(502, "<html>"), request{}, 503, "service_unavailable", 0},
		"401 for the gateway's token": {respond(401, errorBody), request{}, 503, "service_unavailable", 0},
		"403 for the gateway":         {respond(403, errorBody), request{}, 503, "service_unavailable", 0},
		"redirect of a service":       {respond(302, errorBody), request{}, 500, "internal_error", 0},
		"200 of an intermediary": {func(rw http.ResponseWriter, _ *http.Request) {
			_,
				_ = io.WriteString(rw, "<html>")
		}, request{}, 500, "internal_error", 0},
		"no response": {abort, request{}, 503, "service_unavailable", 0},
		"no response from history": {abort, request{path: "/api/v1/opportunities/a/history"}, 503,
			"service_unavailable", 0},
		"unknown path": {respond(200, `{}`), request{path: "/api/v1/other"}, 404, "not_found", 0},
		"method": {respond(200, `{}`), request{method: http.MethodPost}, 405, "method_not_allowed",
			0},
		"upstream rejects HEAD silently": {respond(400, errorBody), request{method: http.MethodHead}, 400, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w.catalog.respondWith(c.upstream)
			w.history.respondWith(c.upstream)
			before, beforeAll := w.charged("acc_a")
			c.request.key = key
			a := gw.do(t, c.request)
			require.Equal(t, c.status, a.status, a.body)
			if c.code != "" {
				require.Equal(t, c.code, a.code(t))
			}
			require.NotContains(t, a.body, "driver text")
			after, afterAll := w.charged("acc_a")
			require.Equal(t, before+c.charged, after, "day of the account")
			require.Equal(t, beforeAll+c.charged, afterAll, "day of the service")
			require.NotEmpty(t, a.header.Get("X-Request-Id"))
			if c.status == 405 || name == "unknown path" {
				require.Empty(t, a.header.Get("X-RateLimit-Remaining"))
				return
			}
			require.Equal(t, "1000", a.header.Get("X-RateLimit-Limit"))
			require.Equal(t, strconv.Itoa(1000-after), a.header.Get("X-RateLimit-Remaining"), "remaining after this response")
			reset, err := strconv.ParseInt(a.header.Get("X-RateLimit-Reset"), 10, 64)
			require.NoError(t, err)
			require.Zero(t, reset%86400)
			require.Equal(t, `"minute";q=60;w=60, "day";q=1000;w=86400`, a.header.Get("RateLimit-Policy"))
			require.Regexp(t, fmt.Sprintf(`^"minute";r=\d+;t=\d+, "day";r=%d;t=\d+$`, 1000-after), a.header.Get("RateLimit"))
			for name := range a.header {
				require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
			}
			if c.status == 503 {
				require.Equal(t, "1", a.header.Get("Retry-After"))
			}
		})
	}
}

func TestRejectionsByLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limits   api.Limits
		capacity int
		code     string
		atMost   int // seconds to wait
	}{
		"minute":                  {api.Limits{PerMinute: 1, PerDay: 9}, 9, "minute_limit_reached", 60},
		"day":                     {api.Limits{PerMinute: 9, PerDay: 1}, 9, "daily_limit_reached", 86400},
		"service":                 {api.Limits{PerMinute: 9, PerDay: 9}, 1, "service_capacity_reached", 86400},
		"day before minute":       {api.Limits{PerMinute: 1, PerDay: 1}, 9, "daily_limit_reached", 86400},
		"service before the rest": {api.Limits{PerMinute: 1, PerDay: 1}, 1, "service_capacity_reached", 86400},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			gw := w.start(func(cfg *gateway.Config) { cfg.ServiceCapacity = c.capacity })
			key := w.authquota.issue("acc_a", c.limits)
			require.Equal(t, 200, gw.get(t, key).status)
			a := gw.get(t, key)
			require.Equal(t, 429, a.status)
			require.Equal(t, c.code, a.code(t))
			wait, err := strconv.Atoi(a.header.Get("Retry-After"))
			require.NoError(t, err)
			require.Greater(t, wait, 0)
			require.LessOrEqual(t, wait, c.atMost)
			require.Equal(t, strconv.Itoa(c.limits.PerDay-1), a.header.Get("X-RateLimit-Remaining"), "remaining daily quota")
			require.Len(t, w.catalog.requests(), 1)
		})
	}
}

func TestRequestsWithoutKey(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/api/v1/opportunities/", 404, "not_found"},
		{"GET", "/api/v1//opportunities", 404, "not_found"},
		{"GET", "//api/v1/opportunities", 404, "not_found"},
		{"GET", "/api/v1/opportunities/a%2Fhistory", 404, "not_found"},
		{"GET", "/api%2Fjobs", 404, "not_found"},
		{"GET", "/docs%2Flimits", 404, "not_found"},
		{"GET", "/api/v1/opportunities/../opportunities", 404, "not_found"},
		{"GET", "/api/jobs/", 404, "not_found"},
		{"GET", "/internal/v1/listings", 404, "not_found"},
		{"GET", "/operator/v1/keys", 404, "not_found"},
		{"GET", "/readyz", 404, "not_found"},
		{"GET", "/metrics", 404, "not_found"},
		{"POST", "/nowhere", 404, "not_found"},
		{"OPTIONS", "/nowhere", 404, "not_found"},
		{"OPTIONS", "/api/v1/opportunities", 204, ""},
		{"OPTIONS", "/api/v1/opportunities/a/history", 204, ""},
		{"POST", "/api/v1/opportunities", 405, "method_not_allowed"},
		{"DELETE", "/api/v1/opportunities/a", 405, "method_not_allowed"},
		{"PATCH", "/docs", 405, "method_not_allowed"},
		{"GET", "/api/v1/opportunities", 401, "missing_api_key"},
		{"GET", "/api/v1/opportunities?country=zzz", 401, "missing_api_key"},
		{"HEAD", "/api/jobs", 401, ""},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			a := gw.do(t, request{method: c.method, path: c.path})
			require.Equal(t, c.status, a.status, a.body)
			if c.code != "" {
				require.Equal(t, c.code, a.code(t))
				require.Equal(t, "application/json", a.header.Get("Content-Type"))
			}
			if c.status == 204 || c.status == 405 {
				require.Equal(t, "GET, HEAD, OPTIONS", a.header.Get("Allow"))
			}
			if c.status == 401 {
				require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			}
			require.Empty(t, a.header.Get("Location"))
		})
	}
	require.Empty(t, w.catalog.requests())
	require.Zero(t, w.authquota.lookupCount())
	w.awaitLog(t, `"method":"PATCH","route":"/docs","status":405`)
	require.NotContains(t, w.log.String(), `"route":""`)
}

// Services get neither the key nor identity headers of the client; the client gets no internal
// headers of a service.
func TestHeadersAreFiltered(t *testing.T) {
	w, gw, key := startWithKey(t)
	w.catalog.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Internal-Secret", "1")
		rw.Header().Set("Set-Cookie", "a=b")
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		respond(200, `{}`)(rw, r)
	})
	a := gw.do(t, request{key: key, path: "/api/v1/opportunities/%61-b?b=2&a=1", header: http.Header{
		"X-Opportunity-Caller": {`{"tier":"commercial"}`}, "X-Opportunity-Actor": {"root"},
		"X-Request-Id":    {"made-up-by-the-caller"},
		"X-Forwarded-For": {"10.0.0.1"}, "Forwarded": {"for=10.0.0.1"}, "Cookie": {"a=b"}, "If-None-Match": {`W/"1"`},
		"Accept": {"application/json"},
		"Origin": {"https://evil.example"}, "Connection": {"If-None-Match"},
	}})
	require.Equal(t, 200, a.status)
	for _, name := range []string{"X-Internal-Secret", "Set-Cookie", "Access-Control-Allow-Origin"} {
		require.Empty(t, a.header.Get(name), name)
	}
	require.NotContains(t, a.header.Get("X-Request-Id"), "made-up")
	got := w.catalog.requests()[0]
	require.Equal(t, "/api/v1/opportunities/a-b?b=2&a=1", got.RequestURI)
	require.Equal(t, http.Header{
		"Authorization":        {"Bearer " + servicetest.Token(peer.Gateway)},
		"X-Opportunity-Caller": {`{"tier":"developer","pageSize":50,"history":true}`},
		"X-Request-Id":         {a.header.Get("X-Request-Id")},
		"If-None-Match":        {`W/"1"`},
		"Accept":               {"application/json"},
	}, got.Header)
}

// Keys do not appear in logs, wherever a client puts them.
func TestKeysAreNotLogged(t *testing.T) {
	w, gw, key := startWithKey(t)
	w.catalog.respondWith(respond(400, `{"error":{"code":"unknown_parameter"}}`))
	for _, path := range []string{
		"/api/v1/opportunities?api_key=" + key.Reveal(), "/api/v1/opportunities/" + key.Reveal(), "/" + key.Reveal(),
		"/docs/" + key.Reveal() + "?" + key.Reveal(), "/api/v1/opportunities/" + key.Reveal() + "/history",
	} {
		gw.do(t, request{path: path, key: key})
		gw.do(t, request{path: path, header: http.Header{"Authorization": {"Basic " + key.Reveal()},
			"X-Request-Id": {key.Reveal()}}})
		gw.do(t, request{path: path, method: "POST", header: http.Header{"Authorization": {key.Reveal()}}})
	}
	w.catalog.respondWith(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	gw.do(t, request{path: "/api/v1/opportunities?" + key.Reveal(), key: key})
	require.NotContains(t, w.log.String(), key.Reveal()[9:40])
	w.awaitLog(t, `"route":"/api/v1/opportunities/{id}"`)
}

// The catalog compresses its responses. The gateway passes on what the client accepts, and the
// response as it is.
func TestCompressedResponsesPassUnchanged(t *testing.T) {
	w, gw, key := startWithKey(t)
	long := strings.Repeat("not compressed, but declared ", 200)
	w.catalog.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header()["Vary"] = []string{"Accept-Encoding", "Authorization"}
		if r.Header.Get("Accept-Encoding") != "" {
			rw.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		}
		rw.Header().Set("Content-Length", strconv.Itoa(len(long)))
		respond(200, long)(rw, r)
	})
	for _, accept := range []string{"gzip", "zstd", "gzip;q=0, x"} {
		for _, path := range []string{"/api/v1/opportunities", "/api/jobs", "/api/v1/opportunities/a"} {
			for method, body := range map[string]string{http.MethodGet: long, http.MethodHead: ""} {
				a := gw.do(t, request{key: key, path: path, method: method, header: http.Header{"Accept-Encoding": {accept}}})
				require.Equal(t, body, a.body)
				require.Equal(t, []string{accept}, a.header.Values("Content-Encoding"), "%s %s", method, path)
				require.Equal(t, strconv.Itoa(len(long)), a.header.Get("Content-Length"))
				require.Equal(t, []string{"Accept-Encoding", "Authorization"}, a.header.Values("Vary"))
				require.Equal(t, `W/"1"`, a.header.Get("ETag"))
			}
		}
	}
	a := gw.do(t, request{key: key})
	require.Empty(t, a.header.Get("Content-Encoding"))
	require.Equal(t, long, a.body)
}

// The gateway compresses the history, and its own pages.
func TestCompression(t *testing.T) {
	w, gw, key := startWithKey(t)
	long := `{"data":"` + strings.Repeat("a", 5000) + `"}`
	w.history.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Vary", "Authorization")
		respond(200, long)(rw, r)
	})
	const path = "/api/v1/opportunities/a/history"
	gzipped := http.Header{"Accept-Encoding": {"gzip"}}
	a := gw.do(t, request{key: key, path: path, header: gzipped})
	require.Equal(t, "gzip", a.header.Get("Content-Encoding"))
	require.ElementsMatch(t, []string{"Accept-Encoding", "Authorization"}, a.header.Values("Vary"))
	require.Equal(t, `W/"1"`, a.header.Get("ETag"))
	unzip, err := gzip.NewReader(strings.NewReader(a.body))
	require.NoError(t, err)
	plain, err := io.ReadAll(unzip)
	require.NoError(t, err)
	require.Equal(t, long, string(plain))

	a = gw.do(t, request{key: key, path: path})
	require.Empty(t, a.header.Get("Content-Encoding"))
	require.Equal(t, long, a.body)
	require.Contains(t, a.header.Values("Vary"), "Accept-Encoding")

	a = gw.do(t, request{key: key, path: path, method: http.MethodHead, header: gzipped})
	require.Empty(t, a.body)
	require.Empty(t, a.header.Get("Content-Encoding"))
	require.Empty(t, a.header.Get("Content-Length"), "Content-Length of a HEAD")
	require.Contains(t, a.header.Values("Vary"), "Accept-Encoding")

	w.history.respondWith(respond(200, `{}`))
	require.Empty(t, gw.do(t, request{key: key, path: path, header: gzipped}).header.Get("Content-Encoding"),
		"Content-Encoding of a short body")
	w.history.respondWith(respond(304, ""))
	require.Equal(t, 304, gw.do(t, request{key: key, path: path, header: gzipped}).status)
}

// A truncated response of a service is an error for the client and costs nothing.
func TestTruncatedResponse(t *testing.T) {
	w, gw, key := startWithKey(t)
	w.catalog.respondWith(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(rw, strings.Repeat(" ", 50000))
		panic(http.ErrAbortHandler)
	})
	for _, header := range []http.Header{nil, {"Accept-Encoding": {"gzip"}}} {
		a, err := gw.try(request{key: key, header: header})
		require.Error(t, err, "truncated response of %d bytes", len(a.body))
	}
	storetest.Eventually(t, "the charge is refunded",
		func() bool { calls, all := w.charged("acc_a"); return calls == 0 && all == 0 })
	require.Equal(t, map[string]int{"served": 0, "refused": 0, "our_fault": 0, "upstream_fault": 2}, w.outcomes())
}

// A call whose client disconnects before the response is refunded.
func TestDisconnectRefundsCharge(t *testing.T) {
	w, gw, key := startWithKey(t)
	arrived := make(chan struct{})
	w.catalog.respondWith(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done() // canceled by the gateway
	})
	ctx, leave := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gw.url+"/api/jobs", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "bearer "+key.Reveal())
	go func() {
		<-arrived
		calls, _ := w.charged("acc_a")
		require.Equal(t, 1, calls)
		leave()
	}()
	_, err = client.Do(req)
	require.ErrorIs(t, err, context.Canceled)
	storetest.Eventually(t, "the charge is refunded",
		func() bool { calls, all := w.charged("acc_a"); return calls == 0 && all == 0 })
}

// Malformed, oversized and slow requests affect only their own connection.
func TestMalformedRequests(t *testing.T) {
	w, gw, key := startWithKey(t)
	address := strings.TrimPrefix(gw.url, "http://")
	slow, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer slow.Close()
	_, _ = io.WriteString(slow, "GET /api/jobs HTTP/1.1\r\nHost: x\r\nAuthoriz")
	for name, sent := range map[string]string{
		"garbage":         "\x16\x03\x01\x00\xff\x00\x01\r\n\r\n",
		"giant header":    "GET /api/jobs HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("a", 64<<10) + "\r\n\r\n",
		"giant URL":       "GET /api/jobs?" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"two lengths":     "GET /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"two framings":    "POST /api/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: xx\r\n\r\nab",
		"no host":         "GET /api/jobs HTTP/1.1\r\n\r\n",
		"escape unclosed": "GET /api/v1/opportunities/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer c.Close()
			go func() { _, _ = io.WriteString(c, sent) }() // the gateway may close the connection first
			status, _ := bufio.NewReader(c).ReadString('\n')
			require.True(t, status == "" || strings.HasPrefix(status, "HTTP/1.1 4") || strings.HasPrefix(status, "HTTP/1.1 5"),
				status)
			require.Equal(t, 200, gw.get(t, key).status)
		})
	}
	require.Len(t, w.catalog.requests(), 7)
}

// A call with a cached key makes one request to its service and one command to Redis.
func TestOneRoundTripPerCall(t *testing.T) {
	w := newEnvironment(t)
	commands := countCommands(t, strings.TrimPrefix(w.redis.URL, "redis://"))
	gw := w.start(func(cfg *gateway.Config) { cfg.Redis.URL = "redis://" + commands.address })
	key := w.authquota.issue("acc_a", developer)
	gw.get(t, key) // resolves the key, seeds the day, loads the script
	before, asked := commands.count(), w.authquota.lookupCount()
	w.catalog.respondWith(nil)
	for range 20 {
		require.Equal(t, 200, gw.get(t, key).status)
	}
	require.Equal(t, before+20, commands.count(), "Redis commands")
	require.Len(t, w.catalog.requests(), 20)
	require.Equal(t, asked, w.authquota.lookupCount())
}

// outcomes returns the requests of the only replica by outcome.
func (w *environment) outcomes() map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(w.metrics()) {
		if series, n, ok := strings.Cut(strings.TrimSpace(line), "} "); ok &&
			strings.HasPrefix(series, "gateway_requests_total{") {
			_, after, _ := strings.Cut(series, `outcome="`)
			outcome, _, _ := strings.Cut(after, `"`)
			calls, err := strconv.Atoi(n)
			require.NoError(w.t, err)
			counts[outcome] += calls
		}
	}
	return counts
}

// metrics returns the metrics of the only replica.
func (w *environment) metrics() string {
	w.t.Helper()
	var after string
	storetest.Eventually(w.t, "the operations listener is known", func() (ok bool) {
		_, after, ok = strings.Cut(w.log.String(), `"listener":"operations","address":"`)
		return ok
	})
	address, _, _ := strings.Cut(after, `"`)
	resp, err := client.Get("http://" + address + "/metrics")
	require.NoError(w.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return string(body)
}

// A client that is wrong about the end of a request gets no further response on its connection.
func TestConnectionEndsAfterARejectedBody(t *testing.T) {
	_, gw, key := startWithKey(t)
	for rest, want := range map[string]string{
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "body_not_allowed",
		"Content-Length: 5\r\n\r\nhello":                                   "body_not_allowed",
		"Expect: x\r\n\r\n":                                                "417 Expectation Failed",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(gw.url, "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn,
			"GET /api/v1/opportunities HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n%sGET /docs HTTP/1.1\r\nHost: "+
				"a\r\n\r\n", key.Reveal(), rest)
		require.NoError(t, err)
		all, _ := io.ReadAll(conn) // a reset can end it, because the second request was not read
		conn.Close()
		require.Contains(t, string(all), want)
		require.Equal(t, 1, strings.Count(string(all), "HTTP/1.1 "), "%s", all)
	}
}

func TestFreeTierUsesOnlyItsShareOfTheCapacity(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start(func(cfg *gateway.Config) { cfg.ServiceCapacity, cfg.BaseTierShare = 9, 50 })
	limits := api.Limits{PerMinute: 9, PerDay: 9}
	tier := func(account string, tier api.Tier) apikey.Key {
		key := w.authquota.issue(account, limits)
		w.authquota.change(key, func(p *api.Principal) { p.Tier = tier })
		return key
	}
	one, other, paying := tier("acc_a", api.BaseTier), tier("acc_b", api.BaseTier), tier("acc_c", api.Developer)
	for range 2 {
		require.Equal(t, 200, gw.get(t, one).status)
		require.Equal(t, 200, gw.get(t, other).status)
	}
	a := gw.get(t, one)
	require.Equal(t, 429, a.status)
	require.Equal(t, "service_capacity_reached", a.code(t))
	require.Contains(t, a.body, "Daily capacity of the free tier reached")
	for range 5 {
		require.Equal(t, 200, gw.get(t, paying).status)
	}
	require.Contains(t, gw.get(t, paying).body, "Daily capacity reached")
}
