package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Direct is a transport for GET and HEAD requests without a body over plain HTTP/1.1. The goroutine of the caller writes the request and
// reads the response itself, while an http.Transport passes each response through two goroutines of the connection, which costs a sixth
// of the CPU of a forwarded request. All other requests go to next.
//
// A request is repeated once, on a new connection, if the service closed a kept connection without a byte of a response. Connections
// follow the settings of next: Dial, ResponseHeaderTimeout, IdleConnTimeout and MaxIdleConnsPerHost.
type Direct struct {
	next *http.Transport
	mu   sync.Mutex
	idle map[string][]*connection // by host, the most recently used last

	closing bool // closeExpired will run
}

// NewDirect returns a transport with the settings of next, which serves the other requests.
func NewDirect(next *http.Transport) *Direct {
	return &Direct{next: next, idle: map[string][]*connection{}}
}

// maxHeader limits the header of a response, in bytes.
const maxHeader = 1 << 20

// connection is a connection to a service, used by one request at a time.
type connection struct {
	net.Conn

	host  string
	since time.Time // it became idle
	input io.LimitedReader
	r     *bufio.Reader
	w     *bufio.Writer
}

// RoundTrip implements http.RoundTripper.
func (d *Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" || r.Method != http.MethodGet && r.Method != http.MethodHead || r.Body != nil && r.Body != http.NoBody {
		return d.next.RoundTrip(r)
	}
	if c := d.idleConnection(r.URL.Host); c != nil {
		resp, err := d.exchange(c, r)
		if !errors.Is(err, errStale) || r.Context().Err() != nil {
			return resp, err
		}
	}
	conn, err := d.next.DialContext(r.Context(), "tcp", address(r.URL.Host))
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, host: r.URL.Host, input: io.LimitedReader{R: conn}, w: bufio.NewWriter(conn)}
	c.r = bufio.NewReader(&c.input)
	return d.exchange(c, r)
}

// address returns host with the port of HTTP if it has none.
func address(host string) string {
	if _, _, err := net.SplitHostPort(host); err != nil {
		return host + ":80"
	}
	return host
}

// errStale is the error of a connection that the service closed without a response.
var errStale = errors.New("connection closed before the response")

// exchange sends the request and reads the header of the response. It closes the connection after an error; otherwise the end of the
// body returns it to the idle ones.
func (d *Direct) exchange(c *connection, r *http.Request) (_ *http.Response, err error) {
	// A cancelled context ends reads and writes at once.
	stop := context.AfterFunc(r.Context(), func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if err == nil {
			return
		}
		stop()
		c.Close()
		if r.Context().Err() != nil {
			err = r.Context().Err()
		}
	}()
	if d.next.ResponseHeaderTimeout > 0 {
		_ = c.SetDeadline(time.Now().Add(d.next.ResponseHeaderTimeout))
		if r.Context().Err() != nil { // it may have ended before the deadline was set
			return nil, r.Context().Err()
		}
	}
	if err := r.Write(c.w); err != nil {
		return nil, errors.Join(errStale, err)
	}
	if err := c.w.Flush(); err != nil {
		return nil, errors.Join(errStale, err)
	}
	c.input.N = maxHeader
	if _, err := c.r.Peek(1); err != nil {
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return nil, err
		}
		return nil, errors.Join(errStale, err)
	}
	resp, err := http.ReadResponse(c.r, r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusOK {
		return nil, fmt.Errorf("unexpected status %d", resp.StatusCode)
	}
	b := &body{ReadCloser: resp.Body, direct: d, connection: c, context: r.Context(), stop: stop, last: resp.Close}
	if resp.Body == http.NoBody {
		b.finish()
		return resp, nil
	}
	if resp.ContentLength < 0 || resp.ContentLength > int64(c.r.Buffered()) { // the client's speed determines how long the rest takes
		c.input.N = 1 << 62
		if d.next.ResponseHeaderTimeout > 0 {
			_ = c.SetDeadline(time.Time{})
			if r.Context().Err() != nil {
				return nil, r.Context().Err()
			}
		}
	}
	resp.Body = b
	return resp, nil
}

// body is the body of a response.
type body struct {
	io.ReadCloser

	direct     *Direct
	connection *connection
	context    context.Context
	stop       func() bool
	last       bool // the service closes the connection after the response
	finished   bool
}

// Read reads from the body. At the end it makes the connection available to other requests.
func (b *body) Read(p []byte) (int, error) {
	if b.finished {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.finish()
	} else if err != nil && b.context.Err() != nil {
		err = b.context.Err()
	}
	return n, err
}

// Close closes the connection if the body was not read to its end.
func (b *body) Close() error {
	if b.finished {
		return nil
	}
	b.finished = true
	b.stop()
	return b.connection.Close()
}

func (b *body) finish() {
	b.finished = true
	if !b.stop() || b.last || b.connection.r.Buffered() > 0 { // the deadline of a cancelled context may still be set
		b.connection.Close()
		return
	}
	b.direct.put(b.connection)
}

// idleConnection removes and returns the most recently used idle connection to host, or nil.
func (d *Direct) idleConnection(host string) *connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	idle := d.idle[host]
	if len(idle) == 0 {
		return nil
	}
	c := idle[len(idle)-1]
	idle[len(idle)-1] = nil
	d.idle[host] = idle[:len(idle)-1]
	return c
}

// put makes c available to other requests.
func (d *Direct) put(c *connection) {
	c.since = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.idle[c.host]) >= d.next.MaxIdleConnsPerHost {
		c.Close()
		return
	}
	d.idle[c.host] = append(d.idle[c.host], c)
	if !d.closing {
		d.closing = true
		time.AfterFunc(d.next.IdleConnTimeout, d.closeExpired)
	}
}

// closeExpired closes the connections that were idle for too long, and runs again later if any is left.
func (d *Direct) closeExpired() {
	expired := time.Now().Add(-d.next.IdleConnTimeout)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = false
	for host, idle := range d.idle {
		d.idle[host] = slices.DeleteFunc(idle, func(c *connection) bool {
			if c.since.After(expired) {
				d.closing = true
				return false
			}
			c.Close()
			return true
		})
	}
	if d.closing {
		time.AfterFunc(d.next.IdleConnTimeout, d.closeExpired)
	}
}

// CloseIdleConnections closes the connections that no request uses.
func (d *Direct) CloseIdleConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, idle := range d.idle {
		for _, c := range idle {
			c.Close()
		}
	}
	clear(d.idle)
}
