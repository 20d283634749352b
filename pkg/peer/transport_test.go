package peer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// session is a connection to a server that a test writes byte by byte.
type session struct {
	net.Conn

	previous *http.Request // nil for the first request
	closed   chan struct{} // by the client
}

func (s *session) send(texts ...string) { _, _ = io.WriteString(s, strings.Join(texts, "")) }

// wire starts a server that passes each request of a connection to answer, and returns its URL and
// the connections.
func wire(t *testing.T, answer func(*session, *http.Request)) (url string, sessions <-chan *session) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	opened := make(chan *session, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s := &session{Conn: c, closed: make(chan struct{})}
			opened <- s
			go func() {
				defer close(s.closed)
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						c.Close()
						return
					}
					answer(s, r)
					s.previous = r
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), opened
}

// pathHeader has the path of the request to which a response belongs.
const pathHeader = "X-Path"

// head returns the header of a response to r, without its end.
func head(r *http.Request, status string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\n%s: %s\r\n%s: %s\r\n", status, api.RequestIDHeader,
		r.Header.Get(api.RequestIDHeader), pathHeader, r.URL.Path)
}

func whole(r *http.Request) string {
	text := fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head(r, "200 OK"), len(r.URL.Path))
	if r.Method == http.MethodHead {
		return text
	}
	return text + r.URL.Path
}

func newTransport(t *testing.T, headerTimeout time.Duration) *Transport {
	t.Helper()
	transport := NewTransport(nil, headerTimeout)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// send sends a request and reads the response to its end.
func send(t *testing.T, via http.RoundTripper, method, url, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := via.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

func TestNoCallerGetsTheResponseOfAnother(t *testing.T) {
	const body = "Content-Length: 5\r\n\r\nhello"
	// sends answers with a status and more text
	sends := func(status string, more ...string) func(*session, *http.Request) {
		return func(s *session, r *http.Request) { s.send(head(r, status), strings.Join(more, "")) }
	}
	// closes is sends, and closes the connection
	closes := func(status string, more ...string) func(*session, *http.Request) {
		return func(s *session, r *http.Request) { sends(status, more...)(s, r); s.Close() }
	}
	raw := func(text string) func(*session, *http.Request) {
		return func(s *session, _ *http.Request) { s.send(text) }
	}
	// around answers with text before and after the response
	around := func(before, after string) func(*session, *http.Request) {
		return func(s *session, r *http.Request) { s.send(before, whole(r), after) }
	}
	lately := func(text string, next func(*session, *http.Request)) func(*session, *http.Request) {
		return func(s *session, r *http.Request) { late(s, text); next(s, r) }
	}
	const hints = "HTTP/1.1 103 Early Hints\r\n\r\n"
	for name, answer := range map[string]func(*session, *http.Request){
		"a second response": func(s *session, r *http.Request) { s.send(whole(r), whole(r)) },
		"a second response 50 ms late": func(s *session, r *http.Request) {
			s.send(whole(r))
			time.AfterFunc(50*time.Millisecond, func() { s.send(whole(r)) })
		},
		"the previous response once more": func(s *session, r *http.Request) {
			if s.previous != nil {
				s.send(whole(s.previous))
			}
			s.send(whole(r))
		},
		"a response to no request":         func(s *session, r *http.Request) { s.send(whole(r)); go s.send(whole(r)) },
		"garbage between responses":        around("", "garbage\r\n"),
		"garbage before the next response": lately("garbage\r\n", around("", "")),
		"103 before the response":          around(hints, ""),
		"103 after the response":           around("", hints),
		"101":                              around("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", ""),
		"304 with a body":                  sends("304 Not Modified", body),
		"304 with a late body":             lately("hello", sends("304 Not Modified", "\r\n")),
		"304 with a late response": lately("HTTP/1.1 304 Not Modified\r\n\r\n",
			sends("304 Not Modified", "\r\n")),
		"204 with a body":               sends("204 No Content", body),
		"HEAD with a body":              sends("200 OK", body),
		"a body longer than its length": sends("200 OK", "Content-Length: 2\r\n\r\nhello"),
		"a chunk longer than its length": sends("200 OK",
			"Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n"),
		"two lengths":                      sends("200 OK", "Content-Length: 2\r\n", body),
		"a length and chunks":              closes("200 OK", "Transfer-Encoding: chunked\r\n", body),
		"a body shorter than its length":   closes("200 OK", "Content-Length: 6\r\n\r\nhello"),
		"two ids":                          sends("200 OK", "X-Request-Id: other\r\n", body),
		"half a header":                    closes("200 OK"),
		"a header of more than a megabyte": sends("200 OK", "A: ", strings.Repeat("a", 2<<20), "\r\n", body),
		"another id":                       raw("HTTP/1.1 200 OK\r\nX-Request-Id: other\r\n" + body),
		"another id without a body":        raw("HTTP/1.1 304 Not Modified\r\nX-Request-Id: other\r\n\r\n"),
		"no id":                            raw("HTTP/1.1 200 OK\r\n" + body),
		"something else than HTTP":         raw("220 mail ready\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := wire(t, answer)
			transport := newTransport(t, 0)
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					for k := range 10 {
						path := fmt.Sprintf("/%d-%d", i, k)
						resp, err := send(t, transport, []string{http.MethodGet, http.MethodHead}[k%2], url+path, "")
						if err == nil && resp.Header.Get(pathHeader) != path {
							t.Errorf("request for %s got the response to %q", path, resp.Header.Get(pathHeader))
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// late sends text before the response to the second request of a connection.
func late(s *session, text string) {
	if s.previous != nil {
		s.send(text)
	}
}

func TestConnectionOfAnotherResponseIsClosed(t *testing.T) {
	for name, c := range map[string]struct{ method, response string }{
		"another id":          {http.MethodGet, "HTTP/1.1 200 OK\r\nX-Request-Id: other\r\nContent-Length: 2\r\n\r\nab"},
		"no id":               {http.MethodGet, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nab"},
		"304 with another id": {http.MethodGet, "HTTP/1.1 304 Not Modified\r\nX-Request-Id: other\r\n\r\n"},
		"204 without id":      {http.MethodGet, "HTTP/1.1 204 No Content\r\n\r\n"},
		"HEAD":                {http.MethodHead, "HTTP/1.1 200 OK\r\nX-Request-Id: other\r\nContent-Length: 2\r\n\r\n"},
		"POST":                {http.MethodPost, "HTTP/1.1 200 OK\r\nX-Request-Id: other\r\nContent-Length: 0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			url, sessions := wire(t, func(s *session, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if requests++; requests == 2 {
					s.send(c.response)
					return
				}
				s.send(whole(r))
			})
			transport := newTransport(t, 0)
			_, err := send(t, transport, http.MethodGet, url, "")
			require.NoError(t, err)
			_, err = send(t, transport, c.method, url, map[bool]string{true: "body"}[c.method == http.MethodPost])
			require.ErrorIs(t, err, errOtherResponse)
			<-(<-sessions).closed
			_, err = send(t, transport, http.MethodGet, url, "")
			require.NoError(t, err)
			require.Equal(t, 3, requests, "the request is not repeated")
			require.Len(t, sessions, 1)
		})
	}
}

func TestReadsAreRepeatedOnceOnAnotherConnection(t *testing.T) {
	closes := func(s *session, _ *http.Request) { s.Close() }
	resets := func(s *session, _ *http.Request) {
		_ = s.Conn.(*net.TCPConn).SetLinger(0)
		s.Close()
	}
	answers := func(s *session, r *http.Request) { s.send(whole(r)) }
	silent := func(*session, *http.Request) {}
	for name, c := range map[string]struct {
		method, body string
		answers      []func(*session, *http.Request) // to each request
		requests     int                             // sent
		fails        bool
	}{
		"closed": {http.MethodGet, "", []func(*session, *http.Request){closes, answers}, 2, false},
		"reset":  {http.MethodGet, "", []func(*session, *http.Request){resets, answers}, 2, false},
		"HEAD":   {http.MethodHead, "", []func(*session, *http.Request){closes, answers}, 2, false},
		"kept, then closed": {http.MethodGet, "", []func(*session, *http.Request){answers, closes, resets, answers}, 4,
			false},
		"closed twice":        {http.MethodGet, "", []func(*session, *http.Request){closes, resets}, 2, true},
		"POST":                {http.MethodPost, "body", []func(*session, *http.Request){closes}, 1, true},
		"GET with a body":     {http.MethodGet, "body", []func(*session, *http.Request){closes}, 1, true},
		"no header in time":   {http.MethodGet, "", []func(*session, *http.Request){silent}, 1, true},
		"POST: no header":     {http.MethodPost, "body", []func(*session, *http.Request){silent}, 1, true},
		"POST without a body": {http.MethodPost, "", []func(*session, *http.Request){closes}, 1, true},
		"closed in the header": {http.MethodGet, "",
			[]func(*session, *http.Request){func(s *session, r *http.Request) { s.send(head(r, "200 OK")); s.Close() }, answers},
			2, false},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			url, _ := wire(t, func(s *session, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				c.answers[requests.Add(1)-1](s, r)
			})
			limit := time.Duration(0)
			if strings.Contains(name, "no header") {
				limit = 20 * time.Millisecond
			}
			transport := newTransport(t, limit)
			if name == "kept, then closed" {
				_, err := send(t, transport, http.MethodGet, url, "")
				require.NoError(t, err)
			}
			_, err := send(t, transport, c.method, url, c.body)
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, int64(c.requests), requests.Load())
		})
	}
}

func TestRequestGetsAnID(t *testing.T) {
	var ids []string
	url, _ := wire(t, func(s *session, r *http.Request) {
		ids = append(ids, r.Header.Get(api.RequestIDHeader))
		s.send(whole(r))
	})
	transport := newTransport(t, 0)
	for _, header := range []http.Header{nil, {"Accept": {"a"}}, {api.RequestIDHeader: {"id-12345678"}}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, url, nil)
		require.NoError(t, err)
		r.Header = header.Clone()
		resp, err := transport.RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, header, r.Header, "a RoundTripper does not modify requests")
	}
	require.Len(t, ids[0], 26)
	require.NotEqual(t, ids[0], ids[1])
	require.Equal(t, "id-12345678", ids[2])
}
