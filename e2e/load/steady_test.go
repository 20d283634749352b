package load

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func TestEveryCallIsCountedAndNoneIsRetried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var arrived, reused atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := arrived.Add(1)
		if r.Header.Get("Authorization") != "Bearer key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if !r.Close {
			reused.Add(1)
		}
		switch {
		case n >= 200:
			cancel()
		case r.URL.Path == "/broken":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		case r.URL.Path == "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	l := Steady{URL: server.URL, Rate: 2000, Keys: []string{"key"}, Targets: []Named{{"good", "/good"}, {"busy", "/busy"}, {"broken", "/broken"}}}
	sum, err := l.Run(ctx)
	require.NoError(t, err)

	require.EqualValues(t, arrived.Load(), sum.calls, "a failed call must not be retried")
	require.EqualValues(t, reused.Load(), sum.reused[1].sent)
	require.InDelta(t, sum.calls/2, sum.reused[0].sent, 3)
	require.Equal(t, sum.calls, sum.reused[0].sent+sum.reused[1].sent)
	require.Positive(t, sum.outcomes["busy 503"])
	require.Positive(t, sum.outcomes["broken connection closed before the response"])
	good := 0
	for outcome, n := range sum.outcomes {
		if strings.HasSuffix(outcome, " 200") {
			good += n
		}
	}
	require.Equal(t, sum.calls-good, sum.Failed())
	var text strings.Builder
	sum.Print(&text)
	require.Contains(t, text.String(), "failures from")
}

func TestConnectionClosedWhileIdleIsNotReused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	require.NoError(t, err)
	defer ln.Close()
	ours, err := net.Dial("tcp", ln.Addr().String()) //nolint:noctx // loopback
	require.NoError(t, err)
	defer ours.Close()
	theirs, err := ln.Accept()
	require.NoError(t, err)
	idle := newConn(ours)
	require.True(t, idle.open())
	require.NoError(t, theirs.Close())
	storetest.Eventually(t, "the close is detected", func() bool { return !idle.open() })
}
