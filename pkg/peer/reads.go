package peer

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// reads sends GET requests without a body, in the goroutine of the caller: http.Transport has two more for each connection, and waking them
// takes a sixth of the CPU of a busy gateway. Unlike http.Transport, it finds out that a server has closed an idle connection only when a
// request fails, so it is not for requests that must not be repeated.
type reads struct {
	connections *http.Transport // dials, and has the time limit of a header

	mu    sync.Mutex
	hosts map[origin]*fasthttp.HostClient
}

// origin is the scheme and the host of a URL.
type origin struct{ scheme, host string }

func newReads(connections *http.Transport) *reads {
	return &reads{connections: connections, hosts: map[origin]*fasthttp.HostClient{}}
}

// host returns the connections to the host of u.
func (c *reads) host(u *url.URL) *fasthttp.HostClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := origin{u.Scheme, u.Host}
	if c.hosts[to] == nil {
		dial := c.connections.DialContext
		if to.scheme == "https" {
			dial = c.connections.DialTLSContext
		}
		c.hosts[to] = &fasthttp.HostClient{
			Addr: fasthttp.AddMissingPort(to.host, to.scheme == "https"), IsTLS: to.scheme == "https",
			MaxConns: math.MaxInt32, MaxIdleConnDuration: idleTimeout, ReadBufferSize: bufferSize,
			DialTimeout: func(address string, timeout time.Duration) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				return dial(ctx, "tcp", address)
			},
		}
	}
	return c.hosts[to]
}

// closeIdle closes the connections that no request uses.
func (c *reads) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, host := range c.hosts {
		host.CloseIdleConnections()
	}
}

// exchange sends r and checks the response. If an idle connection fails before the response, it takes another one: the first idle one that
// works, or else a new one.
func (c *reads) exchange(r *http.Request) (*http.Response, error) {
	for host := c.host(r.URL); ; {
		resp, idle, err := c.try(host, r)
		if err == nil || !idle || !repeatable(r, err) {
			return resp, err
		}
	}
}

// past is a deadline that ends reads and writes at once.
var past = time.Unix(1, 0)

// try is exchange on one connection, and reports whether it was idle before.
func (c *reads) try(host *fasthttp.HostClient, r *http.Request) (resp *http.Response, idle bool, err error) {
	ctx, dialing := r.Context(), dialTimeout
	if deadline, ok := ctx.Deadline(); ok {
		dialing = min(dialing, time.Until(deadline))
	}
	acquired, err := host.AcquireConn(dialing, false)
	if err != nil {
		return nil, false, cmp.Or(ctx.Err(), err)
	}
	conn, timeout := acquired.Conn(), c.connections.ResponseHeaderTimeout
	idle = !acquired.LastUseTime().IsZero()
	inTime := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) })
	response, in := fasthttp.AcquireResponse(), host.AcquireReader(conn)
	release := func(complete bool) {
		if inTime() && complete && in.Buffered() == 0 && !r.Close && !response.ConnectionClose() && host.IdleConnsCount() < maxIdle {
			host.ReleaseConn(acquired)
		} else {
			host.CloseConn(acquired)
		}
		fasthttp.ReleaseResponse(response)
		host.ReleaseReader(in)
	}
	if timeout > 0 {
		_ = conn.SetReadDeadline(time.Now().Add(timeout)) // fails only with the connection
	}
	out := host.AcquireWriter(conn)
	err = write(out, r)
	host.ReleaseWriter(out)
	if err == nil {
		response.Header.SetNoDefaultContentType(true)
		response.StreamBody = true
		err = response.ReadLimitBody(in, 0)
	}
	if err != nil {
		release(false)
		return nil, idle, reason(ctx, err)
	}
	resp = newResponse(r, response, conn)
	length, body := response.Header.ContentLength(), response.BodyStream()
	switch {
	case !hasIDOf(resp, r):
		release(false)
		return nil, idle, errOtherResponse
	case body == nil || length == 0:
		release(true)
		return resp, idle, nil
	case timeout > 0 && (length < 0 || length > in.Buffered()): // the rest may take longer
		_ = conn.SetReadDeadline(time.Time{})
		if ctx.Err() != nil { // what ends with ctx may have come before this
			_ = conn.SetReadDeadline(past)
		}
	}
	resp.Body = &readBody{ctx, body, release, false}
	return resp, idle, nil
}

// write sends r.
func write(out *bufio.Writer, r *http.Request) error {
	request := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(request)
	header := &request.Header
	header.DisableSpecialHeader() // sends each header as it is
	header.DisableNormalizing()
	header.SetRequestURI(r.URL.RequestURI())
	header.Add("Host", r.URL.Host)
	for name, values := range r.Header {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	if err := request.Write(out); err != nil {
		return err
	}
	return out.Flush()
}

// newResponse returns the response to r that arrived on conn in the form of net/http, with an empty body.
func newResponse(r *http.Request, response *fasthttp.Response, conn net.Conn) *http.Response {
	resp := &http.Response{
		StatusCode: response.StatusCode(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header, 16),
		ContentLength: int64(max(response.Header.ContentLength(), -1)), Body: http.NoBody, Request: r,
	}
	for name, value := range response.Header.All() {
		resp.Header[string(name)] = append(resp.Header[string(name)], string(value))
	}
	if secure, ok := conn.(*tls.Conn); ok {
		state := secure.ConnectionState()
		resp.TLS = &state
	}
	return resp
}

// errMalformed replaces errors of the library, which quote the response: it can contain cookies.
var errMalformed = errors.New("malformed response, or header of more than 16 KiB")

// reason returns why a request failed whose connection or response has the error err.
func reason(ctx context.Context, err error) error {
	var timeout interface{ Timeout() bool }
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("waiting for the header of a response: %w", os.ErrDeadlineExceeded)
	case errors.As(err, &network):
		return network
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	return errMalformed
}

// readBody is the body of a response. It is not safe for concurrent use.
type readBody struct {
	ctx      context.Context //nolint:containedctx // of the request
	stream   io.Reader
	release  func(complete bool) // nil after Close
	complete bool
}

func (b *readBody) Read(p []byte) (int, error) {
	if b.release == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.stream.Read(p)
	if b.complete = errors.Is(err, io.EOF); err != nil && !b.complete {
		err = reason(b.ctx, err)
	}
	return n, err
}

func (b *readBody) Close() error {
	if b.release != nil {
		b.release(b.complete)
		b.release = nil
	}
	return nil
}
