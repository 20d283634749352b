package storetest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// relay passes connections to one Postgres database on. When a client ends a connection, the relay keeps that to the server for the next
// client, because a new server process costs more than most tests. The server must accept connections without a password.
type relay struct {
	server   string // host:port
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	clients map[net.Conn]bool
	idle    []*backend
	ended   bool // no connection is kept any more
}

// maxIdle is the largest number of server processes without a client.
const maxIdle = 6

// backend is a connection to the server.
type backend struct {
	net.Conn

	startup  string // message with which it began: user, database, settings
	greeting []byte // the server's response to it
	pid      int32
	refused  bool
	pending  atomic.Int32 // requests without a complete response
	status   byte         // I when no transaction is open
}

// listen starts the relay and returns its address.
func (r *relay) listen() (address string, err error) {
	r.clients = map[net.Conn]bool{}
	if r.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // closed by stop
		return "", err
	}
	r.running.Go(func() {
		for {
			client, err := r.listener.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.clients[client] = true
			r.mu.Unlock()
			r.running.Go(func() {
				r.serve(client)
				_ = client.Close()
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.clients, client)
			})
		}
	})
	return r.listener.Addr().String(), nil
}

// stop ends all connections of clients. Those that the test closed may not have been seen to end yet.
func (r *relay) stop() {
	_ = r.listener.Close()
	r.mu.Lock()
	for client := range r.clients {
		_ = client.SetDeadline(time.Now().Add(100 * time.Millisecond))
	}
	r.mu.Unlock()
	r.running.Wait()
}

// closeIdle closes the connections without a client, and keeps none from now on.
func (r *relay) closeIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, b := range r.idle {
		_ = b.Close()
	}
	r.idle = nil
}

// idlePIDs returns the server processes without a client.
func (r *relay) idlePIDs() []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make([]int32, len(r.idle))
	for i, b := range r.idle {
		pids[i] = b.pid
	}
	return pids
}

// Codes of requests that a client sends instead of a startup message.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

func (r *relay) serve(client net.Conn) {
	startup, err := r.startup(client)
	if err != nil {
		return
	}
	b, err := r.backend(startup)
	if err != nil {
		return
	}
	if _, err := client.Write(b.greeting); err != nil || b.refused {
		_ = b.Close()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.respond(client)
	}()
	terminated := b.request(client)
	_ = b.SetReadDeadline(time.Unix(1, 0)) // ends respond
	<-done
	if terminated && b.pending.Load() == 0 && b.status == 'I' && b.SetReadDeadline(time.Time{}) == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.ended && len(r.idle) < maxIdle {
			r.idle = append(r.idle, b)
			return
		}
	}
	_ = b.Close()
}

// startup reads the message with which a client begins, and rejects encryption. It passes a request to cancel a statement on and returns an error.
func (r *relay) startup(client net.Conn) (string, error) {
	for {
		var head [8]byte
		if _, err := io.ReadFull(client, head[:]); err != nil {
			return "", err
		}
		size := binary.BigEndian.Uint32(head[:])
		if size < 8 || size > 10_000 {
			return "", errors.New("not a startup message")
		}
		message := append(head[:], make([]byte, size-8)...)
		if _, err := io.ReadFull(client, message[8:]); err != nil {
			return "", err
		}
		switch binary.BigEndian.Uint32(head[4:]) {
		case sslRequest, gssRequest:
			if _, err := client.Write([]byte("N")); err != nil {
				return "", err
			}
		case cancelRequest:
			server, err := net.Dial("tcp", r.server) //nolint:noctx // loopback
			if err != nil {
				return "", err
			}
			_, err = server.Write(message)
			return "", errors.Join(err, server.Close(), errors.New("request to cancel"))
		default:
			return string(message), nil
		}
	}
}

// backend returns an idle connection that began with the same startup message, or a new one.
func (r *relay) backend(startup string) (*backend, error) {
	for {
		b := r.takeIdle(startup)
		if b == nil {
			break
		}
		if b.discard() == nil {
			return b, nil
		}
		_ = b.Close()
	}
	server, err := net.Dial("tcp", r.server) //nolint:noctx // loopback
	if err != nil {
		return nil, err
	}
	b := &backend{Conn: server, startup: startup, status: 'I'}
	if _, err = io.WriteString(server, startup); err == nil {
		b.greeting, err = b.untilReady()
	}
	if err != nil {
		_ = server.Close()
	}
	return b, err
}

func (r *relay) takeIdle(startup string) *backend {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.idle {
		if b.startup == startup {
			r.idle = append(r.idle[:i], r.idle[i+1:]...)
			return b
		}
	}
	return nil
}

// Types of messages.
const (
	authentication = 'R'
	keyData        = 'K'
	failed         = 'E'
	ready          = 'Z'
	query          = 'Q'
	synchronize    = 'S'
	terminate      = 'X'
)

// discard removes what the last client set in the session: prepared statements, settings, locks.
func (b *backend) discard() error {
	const discard = "DISCARD ALL\x00"
	if _, err := b.Write(append(binary.BigEndian.AppendUint32([]byte{query}, 4+uint32(len(discard))), discard...)); err != nil {
		return err
	}
	if _, err := b.untilReady(); err != nil || b.refused {
		return errors.Join(err, errors.New("DISCARD ALL failed"))
	}
	return nil
}

// untilReady reads messages up to the one that says that the server is ready, or that the connection failed.
func (b *backend) untilReady() (all []byte, err error) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(b, head[:]); err != nil {
			return nil, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(b, body); err != nil {
			return nil, err
		}
		all = append(append(all, head[:]...), body...)
		switch head[0] {
		case authentication:
			if binary.BigEndian.Uint32(body) != 0 {
				return nil, errors.New("Postgres for tests must not ask for a password")
			}
		case keyData:
			b.pid = int32(binary.BigEndian.Uint32(body)) //nolint:gosec // a process id
		case ready, failed:
			b.refused = head[0] == failed
			return all, nil
		}
	}
}

// request passes messages of the client on. It returns true if the client ended the connection properly.
func (b *backend) request(client net.Conn) (terminated bool) {
	var m messages
	buffer := make([]byte, 16<<10)
	for {
		n, err := client.Read(buffer)
		end := n
		m.scan(buffer[:n], func(kind byte, at int) {
			switch kind {
			case query, synchronize:
				b.pending.Add(1)
			case terminate:
				terminated, end = at >= 0, at
			}
		}, nil)
		if end > 0 {
			if _, err := b.Write(buffer[:end]); err != nil {
				return false
			}
		}
		if err != nil || end < n {
			return terminated
		}
	}
}

// respond passes messages of the server on.
func (b *backend) respond(client net.Conn) {
	var m messages
	buffer := make([]byte, 16<<10)
	for {
		n, err := b.Read(buffer)
		// The client may end the connection as soon as it has the response, so this comes first.
		m.scan(buffer[:n], nil, func(status byte) {
			b.status = status
			b.pending.Add(-1)
		})
		if n > 0 {
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = client.Close()
			return
		}
	}
}

// messages finds messages in a stream: a type, a length that includes itself, and a body.
type messages struct {
	head []byte
	left int // bytes of the body
}

// scan reads on. It calls begun with the type and position of each message whose head ends in b, and isReady with the state of each message
// that says that the server is ready.
func (m *messages) scan(b []byte, begun func(kind byte, at int), isReady func(status byte)) {
	for at := 0; at < len(b); {
		if len(m.head) < 5 {
			n := min(5-len(m.head), len(b)-at)
			m.head = append(m.head, b[at:at+n]...)
			at += n
			if len(m.head) < 5 {
				return
			}
			m.left = int(binary.BigEndian.Uint32(m.head[1:])) - 4
			if begun != nil {
				begun(m.head[0], at-5)
			}
		} else {
			if m.head[0] == ready && isReady != nil {
				isReady(b[at])
			}
			n := min(m.left, len(b)-at)
			m.left -= n
			at += n
		}
		if m.left == 0 {
			m.head = m.head[:0]
		}
	}
}
