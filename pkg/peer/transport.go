package peer

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
)

// Transport is the transport of a process for requests to other services.
//
// It checks that each response has the request id of its request, so that bytes which arrive late
// or unexpectedly on a kept connection never reach another caller. A mismatch is an error, and the
// connection is not used again. A GET or HEAD request whose connection fails before the response is
// repeated once, on another connection.
type Transport struct {
	connections atomic.Pointer[http.Transport]
}

const (
	dialTimeout = time.Second
	idleTimeout = 90 * time.Second
	maxIdle     = 256      // connections to one host
	maxHeader   = 1 << 20  // bytes of the header of a response
	bufferSize  = 16 << 10 // of a connection: a response of that size costs one read
)

// NewTransport returns a transport that keeps many connections open to each host and fails fast if
// a host is unreachable. For https URLs it uses TLS 1.3 and requests the certificate authorities
// from roots for each connection; nil stands for those of the system. headerTimeout limits the time
// from the end of a request to the header of its response; 0 is no limit.
func NewTransport(roots func() *x509.CertPool, headerTimeout time.Duration) *Transport {
	t := new(Transport)
	t.connections.Store(newConnections(roots, headerTimeout))
	return t
}

func newConnections(roots func() *x509.CertPool, headerTimeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{ // without Proxy: a proxy in the environment is not meant for these connections
		DialContext: dialer.DialContext,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			config := &tls.Config{MinVersion: tls.VersionTLS13} // the dialer adds the name of the host
			if roots != nil {
				config.RootCAs = roots()
			}
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, addr)
		},
		MaxIdleConns: 2 * maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, ReadBufferSize: bufferSize, ResponseHeaderTimeout: headerTimeout,
	}
}

// errOtherResponse is the error of a response without the id of its request.
var errOtherResponse = errors.New("response without the id of its request: from a server that is no service of this " +
	"release, or for another request")

// RoundTrip implements http.RoundTripper. A request without a request id gets one.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(r.Header[api.RequestIDHeader]) != 1 {
		changed := *r // a RoundTripper must not modify the request
		changed.Header = maps.Clone(r.Header)
		if changed.Header == nil {
			changed.Header = http.Header{}
		}
		changed.Header[api.RequestIDHeader] = []string{rand.Text()}
		r = &changed
	}
	resp, err := t.exchange(r)
	if err != nil && repeatable(r, err) {
		return t.exchange(r)
	}
	return resp, err
}

func (t *Transport) exchange(r *http.Request) (*http.Response, error) {
	connections := t.connections.Load()
	resp, err := connections.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if id := resp.Header[api.RequestIDHeader]; len(id) == 1 && id[0] == r.Header[api.RequestIDHeader][0] {
		return resp, nil
	}
	resp.Body.Close() // closes the connection, unless the response has no body: then it is idle already
	if resp.Body == http.NoBody && t.connections.CompareAndSwap(connections, connections.Clone()) {
		connections.CloseIdleConnections()
	}
	return nil, errOtherResponse
}

func repeatable(r *http.Request, err error) bool {
	var timeout net.Error
	if r.Context().Err() != nil || errors.Is(err, errOtherResponse) || errors.As(err, &timeout) && timeout.Timeout() {
		return false
	}
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.Body == nil || r.Body == http.NoBody)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() { t.connections.Load().CloseIdleConnections() }
