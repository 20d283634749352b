package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// serve starts a server that counts its requests and passes the number of each to handle.
func serve(t *testing.T, handle func(http.ResponseWriter, *http.Request, int64)) (address string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, calls.Add(1)) }))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), calls
}

func TestEveryCallIsMadeAndItsBodyCounted(t *testing.T) {
	address, calls := serve(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
		if r.Header.Get("Accept-Encoding") != "gzip" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		if r.URL.Path == "/chunked" {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		}
	})
	for _, rate := range []float64{0, 2000} {
		t.Run(fmt.Sprint("rate ", rate), func(t *testing.T) {
			before := calls.Load()
			r := Load{
				Address: address, Paths: []Path{{"whole", "/whole", ""}, {"chunked", "/chunked", ""}}, Keys: []string{"a", "b",
					"c"},
				Header: []string{"Accept-Encoding: gzip"}, Connections: 16, Count: 200, Rate: rate,
			}.Run(t.Context())
			require.EqualValues(t, 200, calls.Load()-before)
			require.Equal(t, map[string]int{"whole 200": 100, "chunked 200": 100}, r.outcomes)
			require.EqualValues(t, 1500, r.Bytes())
			require.LessOrEqual(t, r.Quantile(0.5), r.Quantile(1))
		})
	}
}

func TestNoCallIsRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address, arrived := serve(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		switch {
		case n >= 200:
			cancel()
		case r.URL.Path == "/broken":
			c, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
			_ = c.Close()
		case r.URL.Path == "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r := Load{
		Address: address, Paths: []Path{{"good", "/good", ""}, {"busy", "/busy", ""}, {"broken", "/broken", ""}},
		Keys:        []string{"key", ""},
		Connections: 4, Rate: 2000, New: true,
	}.Run(ctx)
	require.EqualValues(t, arrived.Load(), r.Sent())
	require.InDelta(t, r.Sent()/2, r.calls[0].sent, 3)
	require.Positive(t, r.outcomes["busy 503"])
	require.Positive(t, r.outcomes["broken connection closed before the response"])
	require.Equal(t, r.Sent()-len(r.took), r.Failed())
	var text strings.Builder
	r.Print(&text)
	require.Contains(t, text.String(), fmt.Sprintf("sent %d, failed %d in ", r.Sent(), r.Failed()))
	require.Contains(t, text.String(), "failures from")
}

func TestConnectionClosedWhileIdleIsNotReused(t *testing.T) {
	address, _ := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("X", "y") })
	c := newConn(address)
	defer c.close()
	request := []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 2 {
		status, _, err := c.call(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite()) // so the server closes it, too
		storetest.Eventually(t, "the close is detected", func() bool { return !c.isOpen() })
	}
}
