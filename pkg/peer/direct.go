package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
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

// bufferSize is the size of the buffer of a connection. A whole response of that size costs one read.
const bufferSize = 16 << 10

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
	h := hook{}
	h.work, _ = r.Context().Value(hookKey{}).(func() error)
	passed := r.URL.Scheme != "http" || r.Method != http.MethodGet && r.Method != http.MethodHead || r.Body != nil && r.Body != http.NoBody
	if !passed {
		if c := d.idleConnection(r.URL.Host); c != nil {
			resp, err := d.exchange(c, r, &h)
			if !errors.Is(err, errStale) || r.Context().Err() != nil {
				return resp, err
			}
		}
	}
	if err := h.run(); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	if passed {
		return d.next.RoundTrip(r)
	}
	conn, err := d.next.DialContext(r.Context(), "tcp", address(r.URL.Host))
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, host: r.URL.Host, input: io.LimitedReader{R: conn}, w: bufio.NewWriter(conn)}
	c.r = bufio.NewReaderSize(&c.input, bufferSize)
	return d.exchange(c, r, &h)
}

type hookKey struct{}

// WithMeanwhile returns a context for a request over a Direct, which calls work once before it waits for the service: while the service
// works on a request that was written to a kept connection, otherwise before it connects or passes the request on. If work returns an
// error, RoundTrip discards the response, with its connection, and returns the error.
func WithMeanwhile(ctx context.Context, work func() error) context.Context {
	return context.WithValue(ctx, hookKey{}, work)
}

// hook is the work of one request.
type hook struct{ work func() error } // nil: none, or done

func (h *hook) run() error {
	work := h.work
	h.work = nil
	if work == nil {
		return nil
	}
	return work()
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

// patience is the time for which a request does not notice that its context is cancelled. Few requests take longer, and watching the
// context costs more than one percent of the CPU of a forwarded request.
const patience = 100 * time.Millisecond

// exchange sends the request and reads the header of the response. It closes the connection after an error; otherwise the end of the
// body returns it to the idle ones.
func (d *Direct) exchange(c *connection, r *http.Request, h *hook) (resp *http.Response, err error) {
	b := &body{direct: d, connection: c, context: r.Context(), start: time.Now()}
	complete := false
	defer func() {
		if complete { // otherwise an error, or a panic of a hook
			return
		}
		b.unwatch()
		c.Close()
		if err != nil && r.Context().Err() != nil {
			err = r.Context().Err()
		}
	}()
	if err := b.send(r); err != nil {
		return nil, err
	}
	if err := h.run(); err != nil {
		return nil, err
	}
	if resp, err = b.receive(r); err != nil {
		return nil, err
	}
	complete = true
	if resp.Body == http.NoBody {
		b.finish()
	} else {
		resp.Body = b
	}
	return resp, nil
}

// send writes the request.
func (b *body) send(r *http.Request) error {
	if limit := b.direct.next.ResponseHeaderTimeout; limit > 0 && limit < patience {
		if err := b.watch(b.start.Add(limit)); err != nil {
			return err
		}
	} else {
		_ = b.connection.SetDeadline(b.start.Add(patience)) // a request fits into the buffers of the sockets
		if err := b.context.Err(); err != nil {
			return err
		}
	}
	if err := b.connection.write(r); err != nil {
		return errors.Join(errStale, err)
	}
	return nil
}

// receive reads the header of the response.
func (b *body) receive(r *http.Request) (*http.Response, error) {
	c, limit := b.connection, b.direct.next.ResponseHeaderTimeout
	c.input.N = maxHeader
	_, err := c.r.Peek(1)
	if b.stop == nil && (isTimeout(err) || err == nil && !c.hasHeader()) {
		if err := b.watch(deadline(b.start, limit)); err != nil {
			return nil, err
		}
		_, err = c.r.Peek(1)
	}
	if isTimeout(err) {
		return nil, err
	} else if err != nil {
		return nil, errors.Join(errStale, err)
	}
	resp, err := http.ReadResponse(c.r, r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusOK {
		return nil, fmt.Errorf("unexpected status %d", resp.StatusCode)
	}
	b.ReadCloser, b.last = resp.Body, resp.Close
	if resp.Body != http.NoBody && (resp.ContentLength < 0 || resp.ContentLength > int64(c.r.Buffered())) { // the client's speed determines how long the rest takes
		c.input.N = 1 << 62
		if err := b.watch(time.Time{}); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// deadline returns the end of a limit that begins at start, and the zero time without a limit.
func deadline(start time.Time, limit time.Duration) time.Time {
	if limit == 0 {
		return time.Time{}
	}
	return start.Add(limit)
}

func isTimeout(err error) bool {
	timeout := net.Error(nil)
	return err != nil && errors.As(err, &timeout) && timeout.Timeout()
}

// hasHeader reports whether the buffer has the whole header of a response.
func (c *connection) hasHeader() bool {
	buffered, _ := c.r.Peek(c.r.Buffered())
	return bytes.Contains(buffered, []byte("\r\n\r\n"))
}

// write writes the request, with the headers that it has and Host.
func (c *connection) write(r *http.Request) error {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	uri := r.URL.RequestURI()
	if strings.ContainsAny(uri, " \r\n") {
		return errors.New("space or line break in URL")
	}
	for _, text := range []string{r.Method, " ", uri, " HTTP/1.1\r\nHost: ", host, "\r\n"} {
		_, _ = c.w.WriteString(text)
	}
	for name, values := range r.Header {
		for _, value := range values {
			if strings.ContainsAny(value, "\r\n") {
				return fmt.Errorf("line break in header %s", name)
			}
			for _, text := range []string{name, ": ", value, "\r\n"} {
				_, _ = c.w.WriteString(text)
			}
		}
	}
	_, _ = c.w.WriteString("\r\n")
	return c.w.Flush() // a bufio.Writer keeps its first error
}

// body is the body of a response.
type body struct {
	io.ReadCloser

	direct     *Direct
	connection *connection
	context    context.Context
	start      time.Time   // of the request
	stop       func() bool // nil while the context is not watched
	last       bool        // the service closes the connection after the response
	finished   bool
}

// watch makes the end of the context end reads and writes at once, and sets their deadline.
func (b *body) watch(deadline time.Time) error {
	if b.stop == nil {
		b.stop = context.AfterFunc(b.context, func() { _ = b.connection.SetDeadline(time.Unix(1, 0)) })
	}
	_ = b.connection.SetDeadline(deadline)
	return b.context.Err() // it may have ended before the deadline was set
}

// unwatch undoes watch. It returns false if the context has ended.
func (b *body) unwatch() bool { return b.stop == nil || b.stop() }

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
	b.unwatch()
	return b.connection.Close()
}

func (b *body) finish() {
	b.finished = true
	if !b.unwatch() || b.last || b.connection.r.Buffered() > 0 { // the deadline of a cancelled context may still be set
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
