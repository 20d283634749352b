package storetest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
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

	messages *pgproto3.Frontend
	settings string // with which it began: user, database, ...
	greeting []byte // the server's response to them
	pid      uint32
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
				r.serve(client, pgproto3.NewBackend(client, client))
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
func (r *relay) idlePIDs() []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make([]uint32, len(r.idle))
	for i, b := range r.idle {
		pids[i] = b.pid
	}
	return pids
}

func (r *relay) serve(client net.Conn, messages *pgproto3.Backend) {
	startup, err := r.startup(client, messages)
	if err != nil {
		return
	}
	b, err := r.backend(startup)
	if b == nil {
		return
	}
	if _, writeErr := client.Write(b.greeting); err != nil || writeErr != nil {
		_ = b.Close()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.respond(messages)
		_ = client.Close()
	}()
	terminated := b.request(messages)
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
func (r *relay) startup(client net.Conn, messages *pgproto3.Backend) (*pgproto3.StartupMessage, error) {
	for {
		message, err := messages.ReceiveStartupMessage()
		if err != nil {
			return nil, err
		}
		switch message := message.(type) {
		case *pgproto3.StartupMessage:
			return message, nil
		case *pgproto3.CancelRequest:
			server, err := net.Dial("tcp", r.server) //nolint:noctx // loopback
			if err != nil {
				return nil, err
			}
			messages := pgproto3.NewFrontend(server, server)
			messages.Send(message)
			return nil, errors.Join(messages.Flush(), server.Close(), errors.New("request to cancel"))
		default:
			if _, err := client.Write([]byte("N")); err != nil { // no encryption
				return nil, err
			}
		}
	}
}

// backend returns an idle connection that began with the same settings, or a new one. If the server rejects the client, the error comes
// with a connection whose greeting says why.
func (r *relay) backend(startup *pgproto3.StartupMessage) (*backend, error) {
	settings := fmt.Sprint(startup.Parameters)
	for {
		b := r.takeIdle(settings)
		if b == nil {
			break
		}
		// This removes what the last client set in the session: prepared statements, settings, locks.
		b.messages.Send(&pgproto3.Query{String: "DISCARD ALL"})
		if b.messages.Flush() == nil {
			if _, err := b.untilReady(); err == nil {
				return b, nil
			}
		}
		_ = b.Close()
	}
	server, err := net.Dial("tcp", r.server) //nolint:noctx // loopback
	if err != nil {
		return nil, err
	}
	b := &backend{Conn: server, messages: pgproto3.NewFrontend(server, server), settings: settings, status: 'I'}
	b.messages.Send(startup)
	if err := b.messages.Flush(); err != nil {
		return b, err
	}
	b.greeting, err = b.untilReady()
	return b, err
}

func (r *relay) takeIdle(settings string) *backend {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.idle {
		if b.settings == settings {
			r.idle = append(r.idle[:i], r.idle[i+1:]...)
			return b
		}
	}
	return nil
}

// untilReady reads messages up to the one that says that the server is ready, or failed. It returns them as they were.
func (b *backend) untilReady() (all []byte, err error) {
	for {
		message, err := b.messages.Receive()
		if err != nil {
			return all, err
		}
		if all, err = message.Encode(all); err != nil {
			return all, err
		}
		switch message := message.(type) {
		case *pgproto3.AuthenticationOk:
		case pgproto3.AuthenticationResponseMessage:
			return nil, errors.New("Postgres for tests must not ask for a password")
		case *pgproto3.BackendKeyData:
			b.pid = message.ProcessID
		case *pgproto3.ReadyForQuery:
			return all, nil
		case *pgproto3.ErrorResponse:
			return all, errors.New(message.Message)
		}
	}
}

// request passes messages of the client on. It returns true if the client ended the connection properly.
func (b *backend) request(client *pgproto3.Backend) (terminated bool) {
	for {
		message, err := client.Receive()
		if err != nil {
			return false
		}
		switch message.(type) {
		case *pgproto3.Terminate:
			return true
		case *pgproto3.Query, *pgproto3.Sync:
			b.pending.Add(1)
		}
		b.messages.Send(message)
		switch message.(type) {
		case *pgproto3.Parse, *pgproto3.Bind, *pgproto3.Describe, *pgproto3.Execute: // a Sync or Flush follows
		default:
			if err := b.messages.Flush(); err != nil {
				return false
			}
		}
	}
}

// respond passes messages of the server on.
func (b *backend) respond(client *pgproto3.Backend) {
	for {
		message, err := b.messages.Receive()
		if err != nil {
			return
		}
		client.Send(message)
		ready, isReady := message.(*pgproto3.ReadyForQuery)
		if isReady { // The client may end the connection as soon as it has the response, so this comes first.
			b.status = ready.TxStatus
			b.pending.Add(-1)
		}
		if b.messages.ReadBufferLen() == 0 {
			if err := client.Flush(); err != nil {
				return
			}
		}
	}
}
