package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/load"
	"opportunity.internal/pkg/storetest"
)

func TestEachOutcomeIsCounted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var arrived atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case arrived.Add(1) >= 200:
			cancel()
		case r.URL.Path == "/broken":
			c, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
			_ = c.Close()
		case r.URL.Path == "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	l := load.Load{Address: s.Listener.Addr().String(), Keys: []string{"key", ""}, Paths: []string{"/good", "/busy",
		"/broken"}}
	r := makeCalls(ctx, l, []string{"good", "busy", "broken"}, 2000)
	require.EqualValues(t, arrived.Load(), r.Sent)
	require.Equal(t, r.Sent, r.Failed+len(r.Took))
	for _, outcome := range []string{"good, reused connection: 200", "good, new connection: 200",
		"busy, reused connection: 503", "broken, new connection: unexpected EOF"} {
		require.Greater(t, r.outcomes[outcome], 20, "%s: %v", outcome, r)
	}
	require.Regexp(t, `^sent \d+, failed \d+ in \d+ s\n`, r.String()) // which scripts/cluster reads
	require.Contains(t, r.String(), "failures from")
}

func TestConnectionClosedWhileIdleIsNotReused(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	c := load.Conn{Address: s.Listener.Addr().String()}
	defer c.Close()
	status, _, err := c.Call([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
	require.True(t, isOpen(c.Conn))
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite()) // so the server closes it, too
	storetest.Eventually(t, "the close is detected", func() bool { return !isOpen(c.Conn) })
}
