package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
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
