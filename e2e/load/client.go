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

// patience is how long a call may take.
const patience = 10 * time.Second

// client asks over connections of its own. The client of the standard library sends a call again when a connection that it kept
// turns out to be closed; few others do, and this one does not.
type client struct {
	base *url.URL
	kept chan *conn // idle connections, the one that has been idle longest first
}

type conn struct {
	net.Conn

	in *bufio.Reader
}

func newConn(c net.Conn) *conn { return &conn{c, bufio.NewReader(c)} }

// keptConnections are used in turn, so that they stay spread over the replicas on which they were opened.
const keptConnections = 32

func newClient(base string) (*client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the http address of a gateway", base)
	}
	if u.Port() == "" {
		u.Host += ":80"
	}
	return &client{base: u, kept: make(chan *conn, keptConnections)}, nil
}

// get makes one call, over a connection that was kept or over a new one. Its status is 0 if there was no whole answer.
func (c *client) get(path, key string, keep bool) (status int, err error) {
	var to *conn
	if keep {
		to = c.idle()
	}
	if to == nil {
		raw, err := net.DialTimeout("tcp", c.base.Host, patience) //nolint:noctx // bounded
		if err != nil {
			return 0, err
		}
		to = newConn(raw)
	}
	again, status, err := to.get(c.base, path, key, keep)
	if keep && again && err == nil {
		select {
		case c.kept <- to:
			return status, nil
		default:
		}
	}
	_ = to.Close()
	return status, err
}

// idle is a kept connection that the other side has not closed, or nil. Fewer than all are kept until the pool is full, so that
// there are several from the beginning.
func (c *client) idle() *conn {
	for len(c.kept) == keptConnections {
		k := <-c.kept
		if k.open() {
			return k
		}
		_ = k.Close()
	}
	return nil
}

// open tells whether the other side has not closed the connection: any client looks there before it uses one again. The deadline
// lies in the future, since a read with one that has passed does not look at all.
func (k *conn) open() bool {
	_ = k.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := k.in.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// get asks over the connection; again is whether it may be used for another call.
func (k *conn) get(base *url.URL, path, key string, keep bool) (again bool, status int, err error) {
	_ = k.SetDeadline(time.Now().Add(patience))
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
