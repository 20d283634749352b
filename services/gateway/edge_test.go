package gateway_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/services/gateway"
)

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
