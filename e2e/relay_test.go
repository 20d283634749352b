package e2e

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay forwards connections to a server that can be replaced, as a Service of Kubernetes does.
type relay struct {
	listener net.Listener
	server   atomic.Value // address for new connections
}

// newRelay starts a relay that ends with the test.
func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	r := &relay{listener: ln}
	r.replace(server)
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go r.forward(client)
		}
	}()
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

// replace sends new connections to another server. Open ones stay.
func (r *relay) replace(server string) { r.server.Store(server) }

func (r *relay) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server.Load().(string)) //nolint:noctx // ends with the server
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}
