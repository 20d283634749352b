package certificate

import (
	"bufio"
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
	return &eitherConn{peekConn: peekConn{conn, bufio.NewReader(conn)}, config: l.config}, nil
}

// eitherConn uses TLS if the first byte that the client sends begins a handshake. The first Read,
// not Accept, waits for that byte, so a silent client does not delay others.
type eitherConn struct {
	peekConn // without TLS
	config   *tls.Config
	first    sync.Once
	secure   atomic.Pointer[tls.Conn] // nil without TLS
}

// recordHandshake is the type of a TLS record with a handshake (RFC 8446, section 5.1). No HTTP
// request begins with it.
const recordHandshake = 22

func (c *eitherConn) Read(b []byte) (int, error) {
	c.first.Do(func() {
		if first, _ := c.in.Peek(1); len(first) > 0 && first[0] == recordHandshake { // Read returns the error again
			c.secure.Store(tls.Server(c.peekConn, c.config))
		}
	})
	if secure := c.secure.Load(); secure != nil {
		return secure.Read(b)
	}
	return c.peekConn.Read(b)
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

// peekConn is a connection that is read through in.
type peekConn struct {
	net.Conn
	in *bufio.Reader
}

func (c peekConn) Read(b []byte) (int, error) { return c.in.Read(b) }
