package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve starts a server. calls counts the requests.
func serve(t *testing.T, handle http.HandlerFunc) (address string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), calls
}

func TestEveryCallIsMadeAndItsBodyCounted(t *testing.T) {
	address, calls := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		if r.URL.Path == "/chunked" {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		}
	})
	target := Target{Address: address, Paths: []string{"/whole", "/chunked"}, Keys: []string{"a", "b", "c"}, Header: []string{"Accept-Encoding: gzip"}, Status: 200}
	for name, run := range map[string]func() (Result, error){
		"saturated":  func() (Result, error) { return Saturate(target, 200) },
		"fixed rate": func() (Result, error) { return At(target, 2000, 100*time.Millisecond) },
	} {
		before := calls.Load()
		r, err := run()
		require.NoError(t, err, name)
		require.EqualValues(t, 200, calls.Load()-before, name)
		require.Equal(t, 200, r.Calls, name)
		require.EqualValues(t, 100*1000+100*2000, r.Bytes, name)
		require.Len(t, r.Latencies, 200, name)
		require.LessOrEqual(t, r.Quantile(0.5), r.Quantile(1), name)
	}
}

func TestUnexpectedStatusAndBrokenResponseAreErrors(t *testing.T) {
	address, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			c, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
			_ = c.Close()
		}
	})
	_, err := Saturate(Target{Address: address, Paths: []string{"/"}, Keys: []string{"a"}, Status: 429}, 5)
	require.ErrorContains(t, err, "0 calls to "+address+" had status 429, and 5 had another")
	_, err = Saturate(Target{Address: address, Paths: []string{"/broken"}, Keys: []string{"a"}, Status: 200}, 5)
	require.ErrorContains(t, err, "EOF")
}
