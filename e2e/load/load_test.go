package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachCallIsMadeOnce has responses that fail in three ways, which some clients retry.
func TestEachCallIsMadeOnce(t *testing.T) {
	var arrived atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		switch r.URL.Path {
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/closed", "/short":
			c, _, _ := w.(http.Hijacker).Hijack()
			if r.URL.Path == "/short" {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
			}
			_ = c.Close()
			return
		case "/chunked":
			w.(http.Flusher).Flush()
		default:
			if r.Header.Get("Accept-Encoding") != "gzip" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer key-") {
				w.WriteHeader(http.StatusBadRequest)
			}
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	}))
	defer s.Close()
	for _, rate := range []float64{0, 2000} {
		arrived.Store(0)
		r := Load{
			Address: s.Listener.Addr().String(), Paths: []string{"/whole", "/chunked", "/busy", "/closed", "/short"},
			Keys: []string{"key-1", "key-2"}, Header: "Accept-Encoding: gzip\r\n", Connections: 16, Count: 200, Rate: rate,
		}.Run(t.Context())
		require.EqualValues(t, 200, arrived.Load())
		require.Equal(t, []int{200, 120, 80}, []int{r.Sent, r.Failed, len(r.Took)}, r.Failure)
		require.EqualValues(t, 80_000, r.Bytes)
		require.LessOrEqual(t, r.Quantile(0.5), r.Quantile(1))
	}
}
