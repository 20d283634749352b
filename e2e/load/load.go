// Package load makes HTTP/1.1 calls to a server, as fast as it responds or at a steady rate, and
// counts and times the outcomes. It never retries a call. The client of the standard library
// retries one if a reused connection turns out to be closed; most other clients do not.
package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Load describes calls. Paths are called in turn, with keys in turn.
type Load struct {
	Address string // host and port
	Paths   []Path
	Keys    []string
	Header  []string // such as "Accept-Encoding: gzip"
	Status  int      // of a call that succeeds; 0: 200

	// Connections is the number of reused connections. They are used in turn, so calls reach all
	// replicas. It also limits concurrent calls, unless New is set.
	Connections int

	Count int     // 0: until the context ends
	Rate  float64 // calls per second; 0: each connection makes its next call after the response
	New   bool    // every second round of the paths is over new connections; no call waits for others
}

// Path is a path with its query. Its name is for the counts. With a Body, it is a POST of JSON.
type Path struct{ Name, Path, Body string }

// timeout limits one call.
const timeout = 30 * time.Second

// Run makes the calls and waits for their responses. The latency of a call begins when it is due.
func (l Load) Run(ctx context.Context) *Result {
	idle := make(chan *conn, l.Connections) // longest idle first
	for range l.Connections {
		idle <- newConn(l.Address)
	}
	requests := l.requests()
	r := &Result{start: time.Now(), outcomes: map[string]int{}, status: max(l.Status, http.StatusOK)}
	var all sync.WaitGroup
	for i := 0; (l.Count == 0 || i < l.Count) && ctx.Err() == nil; i++ {
		due := time.Now()
		if l.Rate > 0 {
			due = r.start.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
			if wait := time.Until(due); wait > 0 {
				select {
				case <-ctx.Done():
				case <-time.After(wait):
				}
				due = time.Now() // the timer's delay is not the server's
			}
		}
		reuse, c := !l.New || i/len(l.Paths)%2 == 0, newConn(l.Address)
		if reuse {
			select {
			case c = <-idle:
			default: // all are busy
				if !l.New {
					c = <-idle
				}
			}
			if l.Rate == 0 {
				due = time.Now()
			}
		}
		path, key := i%len(l.Paths), i%len(l.Keys)
		all.Go(func() {
			status, bytes, err := c.call(requests[path][key])
			r.add(l.Paths[path].Name, reuse, status, bytes, err, due)
			if reuse {
				select {
				case idle <- c:
					return
				default: // one that was opened while all were busy
				}
			}
			c.close()
		})
	}
	all.Wait()
	r.end = time.Now()
	close(idle)
	for c := range idle {
		c.close()
	}
	return r
}

// requests returns the bytes of the requests by path and key. They are made once, so that the
// client costs little itself.
func (l Load) requests() [][][]byte {
	all := make([][][]byte, len(l.Paths))
	for i, path := range l.Paths {
		header := append([]string{"Host: " + l.Address}, l.Header...)
		method := http.MethodGet
		if path.Body != "" {
			method = http.MethodPost
			header = append(header, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(path.Body)))
		}
		for _, key := range l.Keys {
			lines := append([]string{method + " " + path.Path + " HTTP/1.1", "Authorization: Bearer " + key}, header...)
			all[i] = append(all[i], []byte(strings.Join(lines, "\r\n")+"\r\n\r\n"+path.Body))
		}
	}
	return all
}

// conn is a connection that is opened by its first call, and by the next one after it was closed.
type conn struct {
	address string

	net.Conn // nil if it is closed
	in       *bufio.Reader
}

func newConn(address string) *conn { return &conn{address: address} }

// call makes one call. The status is 0 if the response is missing or incomplete; bytes are those of
// the body as sent.
func (c *conn) call(request []byte) (status int, bytes int64, err error) {
	if c.Conn != nil && !c.isOpen() {
		c.close()
	}
	if c.Conn == nil {
		if c.Conn, err = net.DialTimeout("tcp", c.address, timeout); err != nil { //nolint:noctx // bounded
			return 0, 0, err
		}
		c.in = bufio.NewReaderSize(c.Conn, 64<<10)
	}
	status, bytes, reusable, err := c.exchange(request)
	if err != nil || !reusable {
		c.close()
	}
	return status, bytes, err
}

func (c *conn) exchange(request []byte) (status int, bytes int64, reusable bool, err error) {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, 0, false, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, 0, false, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, 0, false, err
	}
	defer resp.Body.Close()
	if bytes, err = io.Copy(io.Discard, resp.Body); err != nil {
		return 0, 0, false, err
	}
	return resp.StatusCode, bytes, !resp.Close, nil
}

// isOpen reports whether the server has not closed the connection; all clients check this before
// they reuse one.
func (c *conn) isOpen() bool {
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	var peek error
	err = raw.Control(func(fd uintptr) {
		_, _, peek = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && errors.Is(peek, syscall.EAGAIN)
}

func (c *conn) close() {
	if c.Conn != nil {
		_ = c.Close()
		c.Conn = nil
	}
}

// Result counts the outcomes of calls.
type Result struct {
	start, end time.Time
	status     int

	mu             sync.Mutex
	calls          [2]count       // over new connections, over reused ones
	outcomes       map[string]int // by name of the path and status or error
	bytes          int64          // of the bodies of calls that succeeded
	took           []time.Duration
	sorted         bool
	first, lastBad time.Time // the first and the last failed call
}

type count struct{ sent, failed int }

func (r *Result) add(name string, reused bool, status int, bytes int64, err error, due time.Time) {
	took := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	way := &r.calls[0]
	if reused {
		way = &r.calls[1]
	}
	way.sent++
	r.outcomes[name+" "+outcome(status, err)]++
	if status == r.status {
		r.took, r.bytes = append(r.took, took), r.bytes+bytes
		return
	}
	way.failed++
	if r.first.IsZero() || due.Before(r.first) {
		r.first = due
	}
	if due.After(r.lastBad) {
		r.lastBad = due
	}
}

// outcome describes the outcome of a call without addresses and ports, so equal ones are counted.
func outcome(status int, err error) string {
	var network *net.OpError
	switch {
	case err == nil:
		return fmt.Sprint(status)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the response"
	case errors.As(err, &network):
		return network.Op + ": " + network.Err.Error()
	default:
		return err.Error()
	}
}

// Sent returns the number of calls.
func (r *Result) Sent() int { return r.calls[0].sent + r.calls[1].sent }

// Failed returns the number of calls without a response of the expected status.
func (r *Result) Failed() int { return r.calls[0].failed + r.calls[1].failed }

// Elapsed returns the time from the start to the last response.
func (r *Result) Elapsed() time.Duration { return r.end.Sub(r.start) }

// Rate returns the successful calls per second.
func (r *Result) Rate() float64 { return float64(len(r.took)) / r.Elapsed().Seconds() }

// Bytes returns the mean length of the bodies of successful calls.
func (r *Result) Bytes() float64 { return float64(r.bytes) / float64(len(r.took)) }

// Quantile returns the latency that the share q of the successful calls did not exceed, and 0
// without any.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	if !r.sorted {
		slices.Sort(r.took)
		r.sorted = true
	}
	return r.took[min(int(q*float64(len(r.took))), len(r.took)-1)]
}

// Print writes the counts, the latencies and the time of the failures.
func (r *Result) Print(w io.Writer) {
	fmt.Fprintf(w, "sent %d, failed %d in %.0f s\n", r.Sent(), r.Failed(), r.Elapsed().Seconds())
	fmt.Fprintf(w, "  over reused connections: sent %d, failed %d; over a new one each: sent %d, failed %d\n",
		r.calls[1].sent, r.calls[1].failed, r.calls[0].sent, r.calls[0].failed)
	for _, o := range slices.Sorted(maps.Keys(r.outcomes)) {
		fmt.Fprintf(w, "  %6d  %s\n", r.outcomes[o], o)
	}
	at := func(q float64) time.Duration { return r.Quantile(q).Round(100 * time.Microsecond) }
	fmt.Fprintf(w, "  latency: %v (p50), %v (p99), %v (max)\n", at(0.5), at(0.99), at(1))
	if r.Failed() > 0 {
		fmt.Fprintf(w, "  failures from %.1f s to %.1f s, none in the last %.1f s\n",
			r.first.Sub(r.start).Seconds(), r.lastBad.Sub(r.start).Seconds(), r.end.Sub(r.lastBad).Seconds())
	}
}
