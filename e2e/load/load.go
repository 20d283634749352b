// Package load makes HTTP/1.1 calls to a server and times them. It never retries a call. The client
// of the standard library retries one if a reused connection turns out to be closed; most other
// clients do not.
package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load describes calls. Paths are called in turn, with keys in turn.
type Load struct {
	Address string // host and port
	Paths   []string
	Keys    []string
	Header  string // further lines, such as "Accept-Encoding: gzip\r\n"
	Body    string // JSON to POST; empty: calls are GETs
	Status  int    // of a call that succeeds; 0: 200

	Connections int     // each makes one call at a time, and is reused
	Count       int     // 0: until the context ends
	Rate        float64 // calls per second; 0: each connection makes its next call after the response
}

// Request returns the i-th request.
func (l Load) Request(i int) []byte {
	method, header := "GET ", l.Header
	if l.Body != "" {
		method = "POST "
		header += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(l.Body))
	}
	return []byte(method + l.Paths[i%len(l.Paths)] + " HTTP/1.1\r\nHost: " + l.Address +
		"\r\nAuthorization: Bearer " + l.Keys[i%len(l.Keys)] + "\r\n" + header + "\r\n" + l.Body)
}

// Result is the result of calls.
type Result struct {
	Sent, Failed int             // a call fails without a whole response of the expected status
	Failure      error           // of the last call that failed
	Elapsed      time.Duration   // from the start to the last response
	Took         []time.Duration // by calls that succeeded, shortest first
	Bytes        int64           // of their bodies
}

// Run makes the calls and waits for their responses. A call takes the time since it was due, so
// also that for which no connection was free.
func (l Load) Run(ctx context.Context) (r Result) {
	var (
		all  sync.WaitGroup
		next atomic.Int64
		mu   sync.Mutex // of r
	)
	start, want := time.Now(), max(l.Status, http.StatusOK)
	for range l.Connections {
		all.Go(func() {
			c := Conn{Address: l.Address}
			defer c.Close()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if l.Count > 0 && i >= l.Count {
					return
				}
				due := time.Now()
				if l.Rate > 0 {
					due = start.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
				}
				if wait := time.Until(due); wait > 0 {
					time.Sleep(wait)
					due = time.Now() // the timer's delay is not the server's
				}
				status, bytes, err := c.Call(l.Request(i))
				took := time.Since(due)
				if err == nil && status != want {
					err = fmt.Errorf("status %d", status)
				}
				mu.Lock()
				r.add(took, bytes, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	r.Elapsed = time.Since(start)
	slices.Sort(r.Took)
	return r
}

func (r *Result) add(took time.Duration, bytes int64, err error) {
	if r.Sent++; err != nil {
		r.Failed, r.Failure = r.Failed+1, err
		return
	}
	r.Took, r.Bytes = append(r.Took, took), r.Bytes+bytes
}

// Rate returns the successful calls per second.
func (r Result) Rate() float64 { return float64(len(r.Took)) / r.Elapsed.Seconds() }

// Quantile returns the time in milliseconds that the share q of the successful calls did not
// exceed. There must be one.
func (r Result) Quantile(q float64) float64 {
	return r.Took[min(int(q*float64(len(r.Took))), len(r.Took)-1)].Seconds() * 1000
}

// Conn is a connection that is opened by its first call, and by the next one after it was closed.
type Conn struct {
	Address string

	net.Conn // nil if it is closed
	in       *bufio.Reader
}

// Call makes one call, of at most 30 s. The status is 0 if the response is missing or incomplete;
// bytes are those of the body as sent.
func (c *Conn) Call(request []byte) (status int, bytes int64, err error) {
	const timeout = 30 * time.Second
	reusable := false
	defer func() {
		if !reusable {
			c.Close()
		}
	}()
	if c.Conn == nil {
		if c.Conn, err = net.DialTimeout("tcp", c.Address, timeout); err != nil { //nolint:noctx // bounded
			return 0, 0, err
		}
		c.in = bufio.NewReaderSize(c.Conn, 64<<10)
	}
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, 0, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, 0, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	if bytes, err = io.Copy(io.Discard, resp.Body); err != nil {
		return 0, 0, err
	}
	reusable = !resp.Close
	return resp.StatusCode, bytes, nil
}

// Close closes the connection if it is open.
func (c *Conn) Close() {
	if c.Conn != nil {
		_ = c.Conn.Close()
		c.Conn = nil
	}
}
