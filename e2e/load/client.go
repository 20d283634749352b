package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// timeout limits the duration of a call.
const timeout = 10 * time.Second

// client is an HTTP client that never retries. The client of the standard library retries a call if a reused connection turns out to be
// closed; most other clients do not.
type client struct {
	base *url.URL
	pool chan *conn // idle connections, longest idle first
}

type conn struct {
	net.Conn

	in *bufio.Reader
}

func newConn(c net.Conn) *conn { return &conn{c, bufio.NewReader(c)} }

// poolSize is the number of reused connections. Calls use them in turn, so they reach all replicas.
const poolSize = 32

func newClient(base string) (*client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("invalid --url %q: use the http URL of a gateway", base)
	}
	if u.Port() == "" {
		u.Host += ":80"
	}
	return &client{base: u, pool: make(chan *conn, poolSize)}, nil
}

// get makes one call, over an idle or a new connection. The status is 0 if the response is missing or incomplete.
func (c *client) get(path, key string, keep bool) (status int, err error) {
	var to *conn
	if keep {
		to = c.idle()
	}
	if to == nil {
		raw, err := net.DialTimeout("tcp", c.base.Host, timeout) //nolint:noctx // bounded
		if err != nil {
			return 0, err
		}
		to = newConn(raw)
	}
	reusable, status, err := to.get(c.base, path, key, keep)
	if keep && reusable && err == nil {
		select {
		case c.pool <- to:
			return status, nil
		default:
		}
	}
	_ = to.Close()
	return status, err
}

// idle returns an open idle connection, or nil. It returns nil until the pool is full, so that several connections are opened from the
// start.
func (c *client) idle() *conn {
	for len(c.pool) == poolSize {
		k := <-c.pool
		if k.open() {
			return k
		}
		_ = k.Close()
	}
	return nil
}

// open reports whether the server has not closed the connection; all clients check this before they reuse one. The deadline is in the future
// because a read after its deadline does not detect a closed connection.
func (k *conn) open() bool {
	_ = k.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := k.in.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// get makes a call over the connection. reusable reports whether the connection can be used for another call.
func (k *conn) get(base *url.URL, path, key string, keep bool) (reusable bool, status int, err error) {
	_ = k.SetDeadline(time.Now().Add(timeout))
	req, err := http.NewRequest(http.MethodGet, base.Scheme+"://"+base.Host+path, nil) //nolint:noctx // the connection has a deadline
	if err != nil {
		return false, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Close = !keep
	if err := req.Write(k); err != nil {
		return false, 0, err
	}
	resp, err := http.ReadResponse(k.in, req)
	if err != nil {
		return false, 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, 0, err
	}
	return !resp.Close, resp.StatusCode, nil
}
