package edge

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// reader is a server that responds with the size of the body, over connections in memory so that a
// test can move time.
type reader struct {
	*testing.T
	bodies *bodies
	conns  chan net.Conn
	once   sync.Once
	done   chan struct{}
	from   netip.Addr
	hold   chan struct{} // closed: a response is written at once
}

func newReader(t *testing.T) *reader {
	s := &reader{T: t, bodies: newBodies(maxForms), conns: make(chan net.Conn), done: make(chan struct{}),
		from: netip.MustParseAddr("192.0.2.1"), hold: make(chan struct{})}
	close(s.hold)
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(s) }()
	t.Cleanup(func() {
		_ = server.Close()
		time.Sleep(time.Second) // of the bubble: net/http waits half a second before it closes a connection
	})
	return s
}

func (s *reader) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *reader) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}
func (s *reader) Addr() net.Addr { return &net.TCPAddr{} }

// wrapper is a ResponseWriter around that of net/http, as in the service.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (s *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, release, err := s.bodies.read(wrapper{w}, r, 256<<10, s.from)
	if err != nil {
		problem.Writer{Log: slog.New(slog.DiscardHandler)}.Write(w, r, err)
		return
	}
	defer release()
	<-s.hold
	fmt.Fprintf(w, "%d bytes", len(body))
}

// post sends a request that declares length bytes and has the body, and returns its connection.
func (s *reader) post(length int, body string) net.Conn {
	client, server := net.Pipe()
	s.Cleanup(func() { _ = client.Close() })
	s.conns <- server
	go func() {
		_, _ = fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n%s", length, body)
	}()
	return client
}

// response returns status and body of the response on a connection, and the time that it took.
func (s *reader) response(c net.Conn) (status int, body string, took time.Duration) {
	began := time.Now()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(s, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	require.NoError(s, err)
	return resp.StatusCode, string(all), time.Since(began)
}

func (s *reader) inMemory() int64 {
	synctest.Wait()
	s.bodies.mu.Lock()
	defer s.bodies.mu.Unlock()
	return s.bodies.total
}

func TestBodyIsCountedUntilTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newReader(t)
		s.hold = make(chan struct{})
		c := s.post(10_000, strings.Repeat("a", 10_000))
		require.EqualValues(t, 3*bodyBlock, s.inMemory())
		close(s.hold)
		status, body, _ := s.response(c)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "10000 bytes", body)
		require.Zero(t, s.inMemory())
	})
}

func TestBodiesHaveATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newReader(t)
		status, body, took := s.response(s.post(200_000, "a"))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "The request body did not arrive within 10s.")
		require.Equal(t, bodyTimeout, took)
		require.Zero(t, s.inMemory())
		require.Empty(t, s.bodies.networks, "a network without bodies takes no memory")
	})
}

// A client that sends on after the response must be able to read it. "Connection: close" keeps
// net/http from waiting on its own.
func TestConnectionStaysOpenForAClientThatIsStillSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newReader(t)
		c, server := net.Pipe()
		s.conns <- server
		_, err := fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n")
		require.NoError(t, err)
		status, _, took := s.response(c)
		require.Equal(t, http.StatusBadRequest, status)
		require.Zero(t, took)
		began := time.Now()
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 500*time.Millisecond, time.Since(began))
	})
}

func TestStalledBodiesLeaveMemoryAndOtherNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newReader(t)
		almost := strings.Repeat("a", 256<<10-1)
		var stalled []net.Conn
		for network := range 2 * maxForms / maxNetworkBodies {
			s.from = netip.AddrFrom4([4]byte{192, 0, byte(network), 1})
			for range maxNetworkBodies / (256 << 10) {
				stalled = append(stalled, s.post(256<<10, almost))
				synctest.Wait()
			}
			if network == 0 {
				require.EqualValues(t, maxNetworkBodies, s.inMemory())
				status, _, took := s.response(s.post(10, "0123456789"))
				require.Equal(t, http.StatusServiceUnavailable, status, "the network has its share")
				require.Zero(t, took)
				s.from = netip.MustParseAddr("198.51.100.1")
				status, _, _ = s.response(s.post(10, "0123456789"))
				require.Equal(t, http.StatusOK, status, "another network")
			}
		}
		require.EqualValues(t, maxForms, s.inMemory(), "of %d stalled posts", len(stalled))
		time.Sleep(bodyTimeout)
		require.Zero(t, s.inMemory())
		status, _, _ := s.response(s.post(10, "0123456789"))
		require.Equal(t, http.StatusOK, status)
	})
}

// stalled is a body that stops after its text until release is closed.
type stalled struct {
	text    io.Reader
	stopped chan<- struct{}
	release <-chan struct{}
}

func (s stalled) Read(p []byte) (int, error) {
	if n, err := s.text.Read(p); err == nil {
		return n, nil
	}
	s.stopped <- struct{}{}
	<-s.release
	return 0, io.EOF
}

// One customer has a /48 of IPv6 or a few addresses of a /24, and must not be able to fill the
// memory from there.
func TestNetworksShareALimit(t *testing.T) {
	for first, c := range map[string]struct {
		second string
		shared bool
	}{
		"2001:db8:1:2::1":  {"2001:db8:1:ffff::1", true},
		"2001:db8:2:2::1":  {"2001:db8:3:2::1", false},
		"192.0.2.1":        {"::ffff:192.0.2.254", true},
		"198.51.100.1":     {"198.51.101.1", false},
		"203.0.113.1":      {"2001:db8:4::1", false},
		"::ffff:203.0.0.1": {"203.0.0.2", true},
	} {
		require.Equal(t, c.shared, networkOf(netip.MustParseAddr(first)) == networkOf(netip.MustParseAddr(c.second)),
			"%s and %s", first, c.second)
	}
}

// Forms and explorer calls count together, and webhook events separately.
func TestFormsLeaveRoomForWebhookEvents(t *testing.T) {
	const signature = "Stripe-Signature"
	e := newEdge(t)
	e.Account = replies(t, http.StatusOK, "page", "Content-Type", "text/html")
	e.Billing = replies(t, http.StatusOK, "received")
	h := e.handler(t)
	post := func(path string, body io.Reader) int {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body), httptest.NewRecorder()
		r.Header.Set(signature, "s")
		h.ServeHTTP(w, r)
		return w.Code
	}
	kinds := []string{"/account/sign-in", api.ExplorerPath + "/list", string(opWebhook)}
	for _, kind := range kinds {
		stopped, release := make(chan struct{}), make(chan struct{})
		var open sync.WaitGroup
		for range maxNetworkBodies / (64 << 10) { // the share of the network
			open.Go(func() { post(kind, stalled{strings.NewReader(strings.Repeat("x", 60<<10)), stopped, release}) })
			<-stopped
		}
		for _, other := range kinds {
			status := http.StatusOK
			if (kind == string(opWebhook)) == (other == string(opWebhook)) {
				status = http.StatusServiceUnavailable
			}
			require.Equal(t, status, post(other, strings.NewReader("a=b")), "%s while %s are stalled", other, kind)
		}
		close(release)
		open.Wait()
		require.Equal(t, http.StatusOK, post(kind, strings.NewReader("a=b")), kind)
	}
}
