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
	"sync/atomic"
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

	// Connections is the number of reused connections. They are opened first and then used in turn,
	// so calls reach all replicas. It also limits concurrent calls, unless New is set.
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
	p := pool{address: l.Address, idle: make(chan *conn, l.Connections)}
	defer p.close()
	requests := l.requests()
	r := &Result{start: time.Now(), outcomes: map[string]int{}, status: max(l.Status, http.StatusOK)}
	free := make(chan struct{}, l.Connections)
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
		if !l.New {
			free <- struct{}{}
			if l.Rate == 0 {
				due = time.Now()
			}
		}
		path, key, reuse := i%len(l.Paths), i%len(l.Keys), !l.New || i/len(l.Paths)%2 == 0
		all.Go(func() {
			status, bytes, err := p.call(requests[path][key], reuse)
			r.add(l.Paths[path].Name, reuse, status, bytes, err, due)
			if !l.New {
				<-free
			}
		})
	}
	all.Wait()
	r.end = time.Now()
	return r
}

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

// pool has the connections that are reused.
type pool struct {
	address string
	idle    chan *conn // longest idle first
	opened  atomic.Int64
}

// call makes one call. The status is 0 if the response is missing or incomplete; bytes are those of
// the body as sent.
func (p *pool) call(request []byte, reuse bool) (status int, bytes int64, err error) {
	var c *conn
	if reuse {
		c = p.get()
	}
	if c == nil {
		raw, err := net.DialTimeout("tcp", p.address, timeout) //nolint:noctx // bounded
		if err != nil {
			return 0, 0, err
		}
		c = newConn(raw)
		if reuse {
			p.opened.Add(1)
		}
	}
	status, bytes, reusable, err := c.call(request)
	if reuse && reusable && err == nil {
		select {
		case p.idle <- c:
			return status, bytes, nil
		default:
		}
	}
	if reuse {
		p.opened.Add(-1)
	}
	_ = c.Close()
	return status, bytes, err
}

// get returns an open idle connection, or nil if there is none or if the pool is not full.
func (p *pool) get() *conn {
	for p.opened.Load() >= int64(cap(p.idle)) {
		select {
		case c := <-p.idle:
			if c.open() {
				return c
			}
			p.opened.Add(-1)
			_ = c.Close()
		default:
			return nil
		}
	}
	return nil
}

func (p *pool) close() {
	close(p.idle)
	for c := range p.idle {
		_ = c.Close()
	}
}

type conn struct {
	net.Conn

	in *bufio.Reader
}

func newConn(raw net.Conn) *conn { return &conn{raw, bufio.NewReaderSize(raw, 64<<10)} }

func (c *conn) call(request []byte) (status int, bytes int64, reusable bool, err error) {
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

// open reports whether the server has not closed the connection; all clients check this before they
// reuse one.
func (c *conn) open() bool {
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
