package gateway_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

// Charge and rate limit headers of each kind of response.
func TestChargeByResponse(t *testing.T) {
	w, gw, key := startWithKey(t)
	failure := func(status int) http.HandlerFunc { return respond(status, `{"error":{"code":"invalid_parameter"}}`) }
	for name, c := range map[string]struct {
		upstream http.HandlerFunc
		request  request
		status   int
		code     string
		charged  int
	}{
		"200":            {respond(200, `{}`), request{}, 200, "", 1},
		"200 to HEAD":    {respond(200, `{}`), request{method: http.MethodHead}, 200, "", 1},
		"304":            {respond(304, ""), request{}, 304, "", 1},
		"404":            {failure(404), request{path: "/api/v1/opportunities/unknown"}, 404, "invalid_parameter", 1},
		"410":            {failure(410), request{path: "/api/v1/changes?after=x"}, 410, "invalid_parameter", 0},
		"400":            {failure(400), request{}, 400, "invalid_parameter", 0},
		"400 to HEAD":    {failure(400), request{method: http.MethodHead}, 400, "", 0},
		"402":            {failure(402), request{path: "/api/v1/opportunities/a/history"}, 402, "invalid_parameter", 0},
		"body":           {nil, request{body: io.MultiReader(strings.NewReader("x"))}, 400, "body_not_allowed", 0},
		"500":            {respond(500, `driver text`), request{}, 500, "internal_error", 0},
		"503":            {failure(503), request{}, 503, "service_unavailable", 0},
		"token rejected": {failure(401), request{}, 503, "service_unavailable", 0},
		"no response": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			request{path: "/api/v1/opportunities/a/history"}, 503, "service_unavailable", 0},
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
			require.Equal(t, "1000", a.header.Get("X-RateLimit-Limit"))
			require.Equal(t, strconv.Itoa(1000-after), a.header.Get("X-RateLimit-Remaining"), "remaining after this response")
			require.Regexp(t, fmt.Sprintf(`^"minute";r=\d+;t=\d+, "day";r=%d;t=\d+$`, 1000-after), a.header.Get("RateLimit"))
			if c.status == 503 {
				require.Equal(t, "1", a.header.Get("Retry-After"))
			}
		})
	}
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

// A call with a cached key makes one request to its service and one command to Redis.
func TestOneRoundTripPerCall(t *testing.T) {
	w, gw, key := startWithKey(t)
	gw.get(t, key) // resolves the key, seeds the day, loads the script
	asked := w.authquota.lookupCount()
	w.catalog.respondWith(nil)
	commands := w.commands(func() {
		for range 20 {
			require.Equal(t, 200, gw.get(t, key).status)
		}
	})
	require.Equal(t, 20, commands, "Redis commands")
	require.Len(t, w.catalog.requests(), 20)
	require.Equal(t, asked, w.authquota.lookupCount())
}

// commands returns how many commands clients send to Redis during do, without what they send at
// intervals and to open a connection.
func (w *environment) commands(do func()) (n int) {
	w.t.Helper()
	monitor, err := net.Dial("tcp", strings.TrimPrefix(w.redis.URL, "redis://"))
	require.NoError(w.t, err)
	defer monitor.Close()
	_, err = io.WriteString(monitor, "MONITOR\r\n")
	require.NoError(w.t, err)
	lines := bufio.NewScanner(monitor)
	require.True(w.t, lines.Scan())
	do()
	require.NoError(w.t, w.counters.Echo(w.t.Context(), "end").Err())
	// a line has the time, in brackets the sender, and each argument in quotes
	others := regexp.MustCompile(`(?i) lua\] |\] "(hello|client|info|ping)"|` + counter.Marks)
	for lines.Scan() && !strings.HasSuffix(lines.Text(), `"end"`) {
		if !others.MatchString(lines.Text()) {
			n++
		}
	}
	return n
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
	key := func(account string, tier api.Tier) apikey.Key {
		return w.authquota.issue(account, developer, func(p *api.Principal) { p.Tier = tier })
	}
	free, paying := key("acc_a", api.BaseTier), key("acc_b", api.Developer)
	for _, c := range []struct {
		key      apikey.Key
		admitted int
		then     string
	}{{free, 4, "Daily capacity of the free tier reached"}, {paying, 5, "Daily capacity reached"}} {
		for range c.admitted {
			require.Equal(t, 200, gw.get(t, c.key).status)
		}
		require.Contains(t, gw.get(t, c.key).body, c.then)
	}
}

// The catalog compresses its responses. The gateway compresses the history.
func TestCompression(t *testing.T) {
	w, gw, key := startWithKey(t)
	long := `{"data":"` + strings.Repeat("a", 5000) + `"}`
	service := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header()["Vary"] = []string{"Authorization"}
		respond(200, long)(rw, r)
	}
	w.catalog.respondWith(service)
	w.history.respondWith(service)
	get := func(path string) response {
		return gw.do(t, request{key: key, path: path, header: http.Header{"Accept-Encoding": {"gzip"}}})
	}
	a := get("/api/v1/opportunities")
	require.Equal(t, long, a.body)
	require.Equal(t, []string{"Authorization"}, a.header.Values("Vary"))

	a = get("/api/v1/opportunities/a/history")
	require.Equal(t, "gzip", a.header.Get("Content-Encoding"))
	require.ElementsMatch(t, []string{"Accept-Encoding", "Authorization"}, a.header.Values("Vary"))
	require.Equal(t, `W/"1"`, a.header.Get("ETag"))
	unzip, err := gzip.NewReader(strings.NewReader(a.body))
	require.NoError(t, err)
	plain, err := io.ReadAll(unzip)
	require.NoError(t, err)
	require.Equal(t, long, string(plain))
	w.history.respondWith(respond(304, ""))
	require.Equal(t, 304, get("/api/v1/opportunities/a/history").status)
}
