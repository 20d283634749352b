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
	"net"
	"net/http"
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
				pause(ctx, wait)
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

// pause waits for d or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
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
