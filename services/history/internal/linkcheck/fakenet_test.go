package linkcheck

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// fakeNet replaces the internet: one server for every host name, and a resolver that returns its
// address.
type fakeNet struct {
	t    testing.TB
	port uint16
	tls  uint16 // port of the same server with TLS and an untrusted certificate

	mu       sync.Mutex
	handlers map[string]http.HandlerFunc // by host and path, or by path alone
	requests []*http.Request
	names    map[string]func() string // addresses of other host names; empty for no address
}

func newFakeNet(t testing.TB) *fakeNet {
	t.Helper()
	w := &fakeNet{t: t, handlers: map[string]http.HandlerFunc{}, names: map[string]func() string{}}
	plain := httptest.NewServer(http.HandlerFunc(w.serve))
	secure := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // from clients that do not trust the certificate
	secure.StartTLS()
	t.Cleanup(func() {
		plain.CloseClientConnections()
		plain.Close()
		secure.Close()
	})
	w.port, w.tls = portOf(t, plain.URL), portOf(t, secure.URL)
	return w
}

func portOf(t testing.TB, address string) uint16 {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	n, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return uint16(n)
}

func (w *fakeNet) serve(out http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	w.mu.Lock()
	w.requests = append(w.requests, r)
	h := w.handlers[host+r.URL.Path]
	if h == nil {
		h = w.handlers[r.URL.Path]
	}
	w.mu.Unlock()
	switch {
	case h != nil:
		h(out, r)
	case r.URL.Path == "/robots.txt":
		out.WriteHeader(http.StatusNotFound)
	}
}

// on sets the handler of a path, or of a host and path.
func (w *fakeNet) on(at string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[at] = h
}

// status returns a handler that sends a status and headers, given as pairs.
func status(code int, headers ...string) http.HandlerFunc {
	return func(out http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			out.Header().Set(headers[i], headers[i+1])
		}
		out.WriteHeader(code)
	}
}

func (w *fakeNet) redirect(code int, to string) http.HandlerFunc {
	return status(code, "Location", w.fill(to))
}

// fill replaces PORT and TLS in a URL with the server's ports.
func (w *fakeNet) fill(address string) string {
	return strings.ReplaceAll(strings.ReplaceAll(address, "PORT", strconv.Itoa(int(w.port))), "TLS",
		strconv.Itoa(int(w.tls)))
}

// paths returns the requested paths of a host without robots.txt.
func (w *fakeNet) paths(host string) (paths []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if name, _, _ := net.SplitHostPort(r.Host); name == host && r.URL.Path != "/robots.txt" {
			paths = append(paths, r.URL.RequestURI())
		}
	}
	return paths
}

// config returns the config of a checker that may connect to the server in addition to public
// addresses.
func (w *fakeNet) config() Config {
	return Config{
		Contact: "https://api.checks.works/docs/link-checker", Gap: time.Nanosecond, Concurrency: 4,
		Timeout: 5 * time.Second,
		Ports:   []uint16{80, 443, w.port, w.tls}, AllowedNetworks: []string{"127.0.0.1/32"}, Resolver: w.resolver(),
	}
}

func (w *fakeNet) checker(change func(*Config)) *Checker {
	w.t.Helper()
	cfg := w.config()
	if change != nil {
		change(&cfg)
	}
	transport, err := NewTransport(cfg)
	require.NoError(w.t, err)
	c, err := New(cfg, transport, time.Now)
	require.NoError(w.t, err)
	return c
}

// try makes one attempt at a link with a new checker. It returns no page.
func (w *fakeNet) try(address string) result {
	w.t.Helper()
	return w.tryBy(w.checker(nil), address)
}

func (w *fakeNet) tryBy(c *Checker, address string) result {
	w.t.Helper()
	got := w.readBy(c, address)
	got.page, got.unread = nil, ""
	return got
}

// readBy makes one attempt at a link or a page.
func (w *fakeNet) readBy(c *Checker, address string) result {
	w.t.Helper()
	claims := 0
	got, err := c.try(w.t.Context(), w.t.Context(), w.fill(address), func() error { claims++; return nil })
	require.NoError(w.t, err)
	require.Equal(w.t, 1, claims, "a link must be claimed exactly once")
	return got
}

// resolver returns a resolver that queries a DNS server of this test over UDP on loopback.
func (w *fakeNet) resolver() *net.Resolver {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(w.t, err)
	var serving sync.WaitGroup
	serving.Go(func() { w.answerNames(server) })
	w.t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func (w *fakeNet) answerNames(server net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := server.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true},
			Questions: m.Questions}
		name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
		w.mu.Lock()
		special := w.names[name]
		w.mu.Unlock()
		address := "127.0.0.1"
		if special != nil && q.Type == dnsmessage.TypeA {
			address = special()
		}
		switch {
		case strings.HasSuffix(name, "nowhere.works"):
			reply.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA && address != "":
			reply.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
			}}
		}
		if packed, err := reply.Pack(); err == nil {
			_, _ = server.WriteTo(packed, from)
		}
	}
}
