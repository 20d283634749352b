package certificate

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// eitherListener accepts connections with and without TLS.
type eitherListener struct {
	net.Listener
	config *tls.Config
}

func (l eitherListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &eitherConn{Conn: conn, config: l.config}, nil
}

// eitherConn uses TLS if the first byte that the client sends begins a handshake. The first Read,
// not Accept, waits for that byte, so a silent client does not delay others.
type eitherConn struct {
	net.Conn // without TLS
	config   *tls.Config
	first    sync.Once
	secure   atomic.Pointer[tls.Conn] // nil without TLS
}

// recordHandshake is the type of a TLS record with a handshake (RFC 8446, section 5.1). No HTTP
// request begins with it.
const recordHandshake = 22

func (c *eitherConn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	first := false
	c.first.Do(func() {
		first = true
		if n, err = c.Conn.Read(b[:1]); n == 1 && b[0] == recordHandshake {
			c.secure.Store(tls.Server(&begunConn{Conn: c.Conn, begun: true}, c.config))
		}
	})
	secure := c.secure.Load()
	switch {
	case secure != nil:
		return secure.Read(b)
	case first:
		return n, err
	}
	return c.Conn.Read(b)
}

func (c *eitherConn) Write(b []byte) (int, error) {
	if secure := c.secure.Load(); secure != nil {
		return secure.Write(b)
	}
	return c.Conn.Write(b)
}

func (c *eitherConn) Close() error {
	if secure := c.secure.Load(); secure != nil {
		return secure.Close()
	}
	return c.Conn.Close()
}

// begunConn is a connection whose first byte, recordHandshake, was already read.
type begunConn struct {
	net.Conn
	begun bool
}

func (c *begunConn) Read(b []byte) (int, error) {
	if c.begun && len(b) > 0 {
		c.begun = false
		b[0] = recordHandshake
		return 1, nil
	}
	return c.Conn.Read(b)
}
