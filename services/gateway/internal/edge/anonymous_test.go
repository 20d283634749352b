package edge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// strangers sends requests until one is rejected with 429, each from the address that from returns,
// and returns how many were not.
func strangers(t *testing.T, h http.Handler, method, path, body string, from func(i int) string) int {
	t.Helper()
	for i := range 2 * everyoneBurst {
		r := newRequest(t, method, path, body, "Content-Type", jsonType)
		r.RemoteAddr = from(i)
		w := serve(h, r)
		if w.Code == http.StatusTooManyRequests {
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			return i
		}
	}
	return 2 * everyoneBurst
}

func oneNetwork(i int) string   { return fmt.Sprintf("192.0.2.%d:1", i%250) }
func manyNetworks(i int) string { return fmt.Sprintf("198.%d.%d.1:1", i/250, i%250) }

func TestWorkWithoutAKeyIsLimitedByNetworkAndInTotal(t *testing.T) {
	large := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_opportunities","arguments":{"q":"` +
		strings.Repeat("x", 60_000) + `"}}}`
	for _, c := range []struct {
		method, path, body string
		units              int
	}{
		{http.MethodGet, "/docs/search?q=key", "", 1},
		{http.MethodHead, "/docs/search?q=key", "", 1},
		{http.MethodGet, "/records/opp_a", "", 1},
		{http.MethodGet, "/records/opp_a/event", "", 1},
		{http.MethodGet, "/.well-known/opportunity-history", "", 1},
		{http.MethodGet, "/.well-known/opportunity-history/log/proof/evt_a", "", 1},
		{http.MethodPost, "/mcp", large, 4},
		{http.MethodPost, "/mcp", "rubbish", 1},
	} {
		for limit, from := range map[int]func(int) string{networkBurst: oneNetwork, everyoneBurst: manyNetworks} {
			e := newEdge(t)
			e.Catalog = replies(t, http.StatusNotFound, "{}", "Content-Type", jsonType)
			e.History = e.Catalog
			e.Records = peer.New("http://catalog.test", "token", roundTrip(func(*http.Request) (*http.Response, error) {
				return reply(http.StatusNotFound, strings.NewReader("{}")), nil
			}))
			synctest.Test(t, func(t *testing.T) { // the clock moves only when the rejection waits
				require.Equal(t, limit/c.units, strangers(t, e.handler(t), c.method, c.path, c.body, from), "%s %s", c.method, c.path)
			})
		}
	}
}

// unread is a body that must not be read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("the body was read")
	return 0, io.EOF
}

func TestMessagesBeyondTheLimitAreNotRead(t *testing.T) {
	for _, length := range []int64{60_000, -1} { // -1: unknown
		e := newEdge(t)
		now := time.Now()
		e.Now = func() time.Time { return now }
		synctest.Test(t, func(t *testing.T) {
			h := e.handler(t)
			strangers(t, h, http.MethodPost, "/mcp", "rubbish", oneNetwork)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", unread{t})
			r.ContentLength, r.RemoteAddr = length, oneNetwork(0)
			w := serve(h, r)
			require.Equal(t, http.StatusTooManyRequests, w.Code)
		})
	}
}

func TestDocumentsFromMemoryAreNotLimited(t *testing.T) {
	h := newEdge(t).handler(t)
	for _, path := range []string{"/docs", "/openapi.yaml", "/docs/errors", "/nothing"} {
		require.Equal(t, 2*everyoneBurst, strangers(t, h, http.MethodGet, path, "", oneNetwork), path)
	}
}

func TestMessagesWithAKeyCountUnlessCharged(t *testing.T) {
	e := newEdge(t)
	now := time.Now()
	e.admits(t, func() api.Principal {
		p := principal()
		p.Limits.PerMinute, p.Limits.PerDay = 5, 5
		return p
	}, nil)
	e.Now = func() time.Time { return now }
	e.Catalog = replies(t, http.StatusOK, `{"data":[],"meta":{"generatedAt":"2026-11-20T00:00:00Z"}}`, "Content-Type",
		jsonType)
	h := e.handler(t)
	key := bearer()
	served := 0
	for range 2 * networkBurst {
		w := serve(h, newRequest(t, http.MethodPost, "/mcp", search, "Content-Type", jsonType, "Authorization", key))
		if w.Code == http.StatusTooManyRequests {
			break
		}
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		served++
	}
	require.Equal(t, 5+networkBurst, served, "5 charged calls, then the messages that the account's own limits reject")
}

// The clock is that of synctest, so the time is exact.
func TestRejectionsOfWorkWithoutAKeyWaitUnlessManyDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, begun := newAnonymous(), time.Now()
		require.Error(t, l.tooMany(t.Context(), "x"))
		require.Equal(t, pause, time.Since(begun))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, l.tooMany(gone, "x"), "a client that disconnects")
		for range maxPauses {
			l.pauses <- struct{}{}
		}
		require.Error(t, l.tooMany(t.Context(), "x"))
		require.Equal(t, pause, time.Since(begun))
	})
}
