package redisdb

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialed returns a connection for each failed dial, whose use fails with the error of the dial. The
// library counts failed dials. After poolSize of them it fails all commands and dials once a
// second, so that an outage of seconds would last up to a second longer.
func dialed(dial redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{err}, nil
		}
		return conn, nil
	}
}

// failedConn is a connection that fails with the same error in every use.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)         { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)        { return 0, c.err }
func (failedConn) Close() error                       { return nil }
func (failedConn) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (c failedConn) SetDeadline(time.Time) error      { return c.err }
func (c failedConn) SetReadDeadline(time.Time) error  { return c.err }
func (c failedConn) SetWriteDeadline(time.Time) error { return c.err }
