package load

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// timeout limits one call.
const timeout = 30 * time.Second

// conn is a connection to a server. It never retries a call. The client of the standard library retries one if a reused connection turns
// out to be closed; most other clients do not.
type conn struct {
	net.Conn

	in *bufio.Reader
}

func dial(address string) (*conn, error) {
	raw, err := net.DialTimeout("tcp", address, timeout) //nolint:noctx // bounded
	if err != nil {
		return nil, err
	}
	return newConn(raw), nil
}

func newConn(raw net.Conn) *conn { return &conn{raw, bufio.NewReaderSize(raw, 64<<10)} }

// request returns the bytes of a GET. They are made once for all calls, so that the client costs little itself.
func request(address, path, key string, header ...string) []byte {
	lines := append([]string{"GET " + path + " HTTP/1.1", "Host: " + address, "Authorization: Bearer " + key}, header...)
	return []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")
}

// call makes a call. It returns the status, 0 if the response is missing or incomplete, the length of the body as sent, and whether the
// connection can be used for another call.
func (c *conn) call(request []byte) (status int, body int64, reusable bool, err error) {
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
	if body, err = io.Copy(io.Discard, resp.Body); err != nil {
		return 0, 0, false, err
	}
	return resp.StatusCode, body, !resp.Close, nil
}

// open reports whether the server has not closed the connection; all clients check this before they reuse one. The deadline is in the future
// because a read after its deadline does not detect a closed connection.
func (c *conn) open() bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.in.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded)
}
