package peer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
)

// connections counts the connections to a server.
type connections struct {
	*httptest.Server

	opened atomic.Int64
}

func serve(t *testing.T, h http.HandlerFunc) *connections {
	t.Helper()
	c := &connections{Server: httptest.NewUnstartedServer(h)}
	c.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			c.opened.Add(1)
		}
	}
	c.Start()
	t.Cleanup(c.Close)
	return c
}

func newDirect(t *testing.T) *peer.Direct {
	t.Helper()
	d := peer.NewDirect(peer.Transport(nil))
	t.Cleanup(d.CloseIdleConnections)
	return d
}

func get(t *testing.T, via http.RoundTripper, method, url string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	resp, err := via.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

// TestDirectReusesConnections also checks that all kinds of responses arrive complete.
func TestDirectReusesConnections(t *testing.T) {
	long := strings.Repeat("0123456789", 50_000)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(http.StatusNotModified)
		case "/chunked":
			for i := range 10 {
				_, _ = io.WriteString(w, long[i*50_000:(i+1)*50_000])
				_ = http.NewResponseController(w).Flush()
			}
		case "/long":
			_, _ = io.WriteString(w, long)
		default:
			w.Header().Set("X-Seen", r.URL.RawQuery)
			_, _ = io.WriteString(w, r.Method)
		}
	})
	d := newDirect(t)
	for range 3 {
		_, body := get(t, d, http.MethodGet, s.URL+"/long")
		require.Equal(t, long, body)
		_, body = get(t, d, http.MethodGet, s.URL+"/chunked")
		require.Equal(t, long, body)
		resp, body := get(t, d, http.MethodGet, s.URL+"/none")
		require.Equal(t, http.StatusNotModified, resp.StatusCode)
		require.Empty(t, body)
		resp, body = get(t, d, http.MethodHead, s.URL+"/?a=b")
		require.Equal(t, int64(4), resp.ContentLength)
		require.Empty(t, body)
		require.Equal(t, "a=b", resp.Header.Get("X-Seen"))
	}
	require.Equal(t, int64(1), s.opened.Load())
}

func TestDirectIsSafeForConcurrentUse(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RawQuery) })
	d := newDirect(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/?%d-%d", s.URL, i, k), nil)
				if k%5 == 0 {
					go cancel()
				}
				resp, err := d.RoundTrip(r)
				if err == nil {
					body, err := io.ReadAll(resp.Body)
					if err == nil && string(body) != r.URL.RawQuery {
						t.Errorf("the response to %s is %s", r.URL.RawQuery, body)
					}
					resp.Body.Close()
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, s.opened.Load(), int64(16+16*10), "only cancelled requests close their connection")
}

// TestDirectRepeatsOnANewConnection covers a service that restarts: the kept connections are closed.
func TestDirectRepeatsOnANewConnection(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	d := newDirect(t)
	for range 3 {
		_, body := get(t, d, http.MethodGet, s.URL)
		require.Equal(t, "ok", body)
		s.CloseClientConnections()
	}
	require.Equal(t, int64(3), s.opened.Load())
}

// script is a server that reads a request from each connection, sends text and does what after says.
func script(t *testing.T, text string, after func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, text)
				}
				after(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestDirectFails(t *testing.T) {
	closes := func(c net.Conn) { c.Close() }
	for name, response := range map[string]string{
		"without a response":                "",
		"in the header":                     "HTTP/1.1 200 OK\r\nContent-Le",
		"with an informational status":      "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"with a header of over a megabyte":  "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
		"with something other than HTTP":    "220 mail ready\r\n",
		"with two different content length": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, script(t, response, closes), nil)
			require.NoError(t, err)
			_, err = newDirect(t).RoundTrip(r) //nolint:bodyclose // there is none
			require.Error(t, err)
		})
	}
	t.Run("in the body", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, script(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", closes), nil)
		require.NoError(t, err)
		resp, err := newDirect(t).RoundTrip(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, "abc", string(body))
	})
}

func TestDirectEndsWithTheContext(t *testing.T) {
	for name, text := range map[string]string{"before the response": "", "in the body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			url := script(t, text, func(c net.Conn) {
				cancel()
				_, _ = io.Copy(io.Discard, c) // until the other side closes it
				c.Close()
			})
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			require.NoError(t, err)
			resp, err := newDirect(t).RoundTrip(r)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

func TestDirectLimitsTheTimeToTheHeader(t *testing.T) {
	for _, limit := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond} { // less and more than it is patient
		transport := peer.Transport(nil)
		transport.ResponseHeaderTimeout = limit
		url := script(t, "", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		_, err = peer.NewDirect(transport).RoundTrip(r) //nolint:bodyclose // there is none
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
	}
}

// TestDirectDropsUnreadBodies checks that the rest of one response is never taken for the next.
func TestDirectDropsUnreadBodies(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(r.URL.RawQuery, 1000))
	})
	d := newDirect(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/?first", nil)
	require.NoError(t, err)
	resp, err := d.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, body := get(t, d, http.MethodGet, s.URL+"/?second")
	require.Equal(t, strings.Repeat("second", 1000), body)
	require.Equal(t, int64(2), s.opened.Load())
}

func TestDirectClosesIdleConnections(t *testing.T) {
	transport := peer.Transport(nil)
	transport.IdleConnTimeout = time.Millisecond
	closed := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	s.Start()
	defer s.Close()
	get(t, peer.NewDirect(transport), http.MethodGet, s.URL)
	<-closed
}

// TestDirectPassesOtherRequestsOn checks that a request with a body arrives.
func TestDirectPassesOtherRequestsOn(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("body"))
	require.NoError(t, err)
	resp, err := newDirect(t).RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
}

// BenchmarkTransports compares Direct with the transport of net/http, for a response of 2.7 KB.
func BenchmarkTransports(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("a", 2700)) }))
	defer s.Close()
	for name, via := range map[string]http.RoundTripper{"net-http": peer.Transport(nil), "direct": peer.NewDirect(peer.Transport(nil))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL, nil)
					resp, err := via.RoundTrip(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		})
	}
}

func TestDirectWorksMeanwhile(t *testing.T) {
	received := make(chan struct{}, 10)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		received <- struct{}{}
		_, _ = io.WriteString(w, "ok")
	})
	d := newDirect(t)
	works := 0
	request := func(method string, work func() error) (string, error) {
		r, err := http.NewRequestWithContext(peer.WithMeanwhile(t.Context(), func() error { works++; return work() }), method, s.URL, nil)
		require.NoError(t, err)
		resp, err := d.RoundTrip(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	nothingSent := func() error { require.Empty(t, received); return nil }
	sent := func() error { <-received; return nil }
	for i, c := range []struct {
		method string
		work   func() error
	}{
		{http.MethodGet, nothingSent}, // before it connects
		{http.MethodGet, sent},
		{http.MethodPost, nothingSent}, // before the request is passed on
	} {
		body, err := request(c.method, c.work)
		require.NoError(t, err)
		require.Equal(t, "ok", body)
		require.Equal(t, i+1, works)
		if i != 1 {
			<-received
		}
	}
	s.CloseClientConnections()
	_, err := request(http.MethodGet, func() error { return nil })
	require.NoError(t, err)
	require.Equal(t, 4, works, "once, also if the kept connection is closed")
	<-received

	opened, rejected := s.opened.Load(), errors.New("rejected")
	_, err = request(http.MethodGet, func() error { <-received; return rejected })
	require.ErrorIs(t, err, rejected)
	_, err = request(http.MethodGet, func() error { return rejected })
	require.ErrorIs(t, err, rejected)
	_, err = request(http.MethodGet, nothingSent)
	require.NoError(t, err)
	require.Equal(t, opened+1, s.opened.Load(), "the connection of the first rejected request was closed, and the second did not connect")
}

// The header of a response may arrive in parts.
func TestDirectReadsAHeaderInParts(t *testing.T) {
	url := script(t, "HTTP/1.1 200 OK\r\nContent-", func(c net.Conn) { _, _ = io.WriteString(c, "Length: 2\r\n\r\nok") })
	_, body := get(t, newDirect(t), http.MethodGet, url)
	require.Equal(t, "ok", body)
}

func TestDirectSendsNoLineBreak(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	r.Header["X-A"] = []string{"a\r\nX-B: b"}
	_, err = newDirect(t).RoundTrip(r) //nolint:bodyclose // there is none
	require.ErrorContains(t, err, "line break in header X-A")
	delete(r.Header, "X-A")
	for _, query := range []string{"a=1 HTTP/1.1", "a=1\r\nX-B: b"} {
		r.URL.RawQuery = query
		_, err = newDirect(t).RoundTrip(r) //nolint:bodyclose // there is none
		require.ErrorContains(t, err, "space or line break in URL")
	}
}
