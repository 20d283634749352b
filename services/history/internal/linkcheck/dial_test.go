package linkcheck

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// forbiddenHosts holds one host from each non-public range, in URL syntax.
var forbiddenHosts = map[string]string{
	"this network": "0.0.0.0", "loopback": "127.0.0.2", "private 10": "10.1.2.3", "private 172": "172.16.0.1",
	"private 192": "192.168.1.1", "link-local": "169.254.1.1", "metadata": "169.254.169.254",
	"metadata of Alibaba": "100.100.100.200",
	"metadata of Oracle":  "192.0.0.192", "metadata of Azure": "168.63.129.16", "carrier-grade NAT": "100.64.0.1",
	"multicast": "224.0.0.1", "broadcast": "255.255.255.255", "reserved": "240.0.0.1", "benchmarks": "198.18.0.1",
	"documentation": "203.0.113.1", "IPv6 loopback": "[::1]", "IPv6 unspecified": "[::]",
	"IPv6 link-local":   "[fe80::1]",
	"IPv6 unique local": "[fd00:ec2::254]", "IPv6 site-local": "[fec0::1]", "IPv6 multicast": "[ff02::1]",
	"IPv6 documentation": "[2001:db8::1]", "IPv4 mapped": "[::ffff:10.0.0.1]",
	"IPv4 mapped loopback": "[::ffff:7f00:2]",
	"IPv4 compatible":      "[::10.0.0.1]", "NAT64": "[64:ff9b::10.0.0.1]", "NAT64 of public": "[64:ff9b::8.8.8.8]",
	"local NAT64": "[64:ff9b:1::10.0.0.1]", "6to4": "[2002:0a00:0001::1]", "Teredo": "[2001:0:0a00:1::1]",
	"operator's own": "[2600:1234::1]",
}

func TestForbiddenAddressIsNotDialed(t *testing.T) {
	w := newFakeNet(t)
	dialled := listenBeside(t, w.port)
	refuse := func(cfg *Config) { cfg.RefusedNetworks = []string{"2600:1234::/32"} }
	c := w.checker(refuse)
	for name, host := range forbiddenHosts {
		t.Run(name, func(t *testing.T) {
			link := w.tryBy(c, "http://"+host+":PORT/apply")
			require.Equal(t, unreachable, link.outcome)
			require.Equal(t, "Not reached: its name resolves to an address that is not public.", link.note)
			require.False(t, link.retry)

			w.on("/apply", w.redirect(302, "http://"+host+":PORT/latest/meta-data"))
			behind := w.tryBy(c, "http://maple.works:PORT/apply")
			require.Equal(t, needsReview, behind.outcome, behind.note)
			require.Contains(t, behind.note, "an address that is not public")

			if !strings.HasPrefix(host, "[") {
				w.mu.Lock()
				w.names["inside.works"] = func() string { return host }
				w.mu.Unlock()
				w.on("/apply", w.redirect(302, "http://inside.works:PORT/"))
				require.Equal(t, needsReview, w.tryBy(c, "http://maple.works:PORT/apply").outcome)
				c = w.checker(refuse)
			}
		})
	}
	require.Zero(t, dialled.Load())
}

// listenBeside listens on the port of the server at a loopback address that is not allowed. It
// counts the connections.
func listenBeside(t *testing.T, port uint16) *atomic.Int32 {
	t.Helper()
	trap, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:"+strconv.Itoa(int(port)))
	require.NoError(t, err)
	t.Cleanup(func() { trap.Close() })
	dialled := new(atomic.Int32)
	go func() {
		for {
			conn, err := trap.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			conn.Close()
		}
	}()
	return dialled
}

// The name resolves to a public address at first, and to a private one for the request of the page.
func TestReboundNameIsNotDialed(t *testing.T) {
	w := newFakeNet(t)
	dialled := listenBeside(t, w.port)
	var lookups atomic.Int32
	w.names["rebound.works"] = func() string {
		if lookups.Add(1) == 1 {
			return "127.0.0.1"
		}
		return "127.0.0.2"
	}
	got := w.try("http://rebound.works:PORT/apply")
	require.Equal(t, result{outcome: unreachable, note: "Not reached: its name resolves to an address that is not public.",
		retry: false}, got)
	require.Empty(t, w.paths("rebound.works"))
	require.Greater(t, lookups.Load(), int32(1))
	require.Zero(t, dialled.Load())
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.requests, 1, "robots.txt only, from the allowed address")
}

func TestProxyIsNotUsed(t *testing.T) {
	w := newFakeNet(t)
	dialled := listenBeside(t, w.port)
	t.Setenv("HTTP_PROXY", w.fill("http://127.0.0.2:PORT"))
	t.Setenv("http_proxy", w.fill("http://127.0.0.2:PORT"))
	require.Equal(t, reachable, w.try("http://maple.works:PORT/apply").outcome)
	require.Zero(t, dialled.Load())
}

func TestFailureWithoutResponse(t *testing.T) {
	w := newFakeNet(t)
	c := w.checker(func(cfg *Config) { cfg.Ports = append(cfg.Ports, 1) }) // on which nothing listens
	w.on("garbage.works/robots.txt", func(out http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(out).Hijack()
		_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH\r\n\r\n")
		conn.Close()
	})
	for link, note := range map[string]string{
		"http://nowhere.works:PORT/apply": "Not reached: its name does not exist.",
		"http://maple.works:1/apply":      "Not reached: the connection failed.",
		"https://maple.works:TLS/apply":   "Not reached: its certificate is not valid.",
		"https://maple.works:PORT/apply":  "Not reached: the TLS handshake failed.",
		"http://garbage.works:PORT/apply": "Not reached: the connection failed.",
	} {
		require.Equal(t, result{outcome: unreachable, note: note, retry: true}, w.tryBy(c, link), link)
	}
	for link, note := range map[string]string{
		"ftp://maple.works/apply":            "Not requested: the link is not an http or https address.",
		"http://me:secret@maple.works/apply": "Not requested: the link contains a user name.",
		"http://maple.works:6379/apply":      "Not requested: the link uses a port that is not allowed.",
	} {
		require.Equal(t, result{outcome: needsReview, note: note, retry: false}, w.tryBy(c, link), link)
	}
}

// counted counts the bytes of a response that a server could send.
type counted struct{ sent atomic.Int64 }

// repeat sends a text again and again.
func (c *counted) repeat(out io.Writer, text string) {
	for c.sent.Load() < 10<<30 {
		n, err := io.WriteString(out, text)
		if err != nil {
			return
		}
		c.sent.Add(int64(n))
	}
}

// fewBytes is more than the kernel buffers for a connection without a reader, and a tiny part of
// the whole response.
const fewBytes = 32 << 20

// writerOf is a response writer that sends its body through another writer.
type writerOf struct {
	http.ResponseWriter
	body io.Writer
}

func (w writerOf) Write(b []byte) (int, error) { return w.body.Write(b) }

func TestSlowResponseIsAborted(t *testing.T) {
	w := newFakeNet(t)
	released := make(chan struct{})
	w.on("/headers", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		released <- struct{}{}
	})
	quick := func(cfg *Config) { cfg.Timeout = 300 * time.Millisecond }
	got := w.tryBy(w.checker(quick), "http://maple.works:PORT/headers")
	require.Equal(t, result{outcome: unreachable, note: "Not reached: the request timed out.", retry: true}, got)
	<-released
	w.on("drip.works/robots.txt", func(out http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(out, "User-agent: *\n")
		_ = http.NewResponseController(out).Flush()
		<-r.Context().Done()
		released <- struct{}{}
	})
	got = w.tryBy(w.checker(quick), "http://drip.works:PORT/apply")
	require.Equal(t, result{outcome: unreachable, note: "Not reached: the request timed out.", retry: true}, got)
	<-released
	storetest.Eventually(t, "no requests left", func() bool { return len(w.paths("drip.works")) == 0 })
}

func TestTooLargeHeadersAreNotRead(t *testing.T) {
	w := newFakeNet(t)
	w.on("/apply", func(out http.ResponseWriter, _ *http.Request) {
		for i := range 1 << 10 {
			out.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("x", 1<<10))
		}
	})
	require.Equal(t, result{outcome: unreachable, note: "Not reached: the connection failed.", retry: true},
		w.try("http://maple.works:PORT/apply"))
}
