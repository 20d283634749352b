package storetest

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy is the way to a server. A test can cut or stall it, or let it lead to another server, as a
// Service of Kubernetes does.
type Proxy struct {
	Address string // loopback, for clients

	mu      sync.Mutex
	server  string
	cut     bool
	stalled bool
	conns   map[net.Conn]bool
	changed *sync.Cond
}

// NewProxy starts a proxy to an address. It ends with the test.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	ln := Must(new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
	p := &Proxy{Address: ln.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.forward(client) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		p.Cut()
		running.Wait()
	})
	return p
}

// ProxyTo starts a proxy to the server of a URL, and returns the URL through the proxy.
func ProxyTo(t testing.TB, server string) (p *Proxy, through string) {
	t.Helper()
	u := Must(url.Parse(server))(t)
	p = NewProxy(t, u.Host)
	u.Host = p.Address
	return p, u.String()
}

// Cut closes all connections, and new ones as soon as they are accepted.
func (p *Proxy) Cut() { p.set(true, false, p.server) }

// Stall keeps connections and forwards nothing.
func (p *Proxy) Stall() { p.set(false, true, p.server) }

// Restore forwards again.
func (p *Proxy) Restore() { p.set(false, false, p.server) }

// Replace leads new connections to another server. Open ones stay.
func (p *Proxy) Replace(server string) { p.set(false, false, server) }

func (p *Proxy) set(cut, stalled bool, server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.stalled, p.server = cut, stalled, server
	for conn := range p.conns {
		if cut {
			_ = conn.Close()
		}
	}
	p.changed.Broadcast()
}

// open adds a connection, and returns the server for it. It closes the connection if the proxy is
// cut.
func (p *Proxy) open(conn net.Conn) (server string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		_ = conn.Close()
		return "", false
	}
	p.conns[conn] = true
	return p.server, true
}

func (p *Proxy) close(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}

func (p *Proxy) forward(client net.Conn) {
	address, ok := p.open(client)
	if !ok {
		return
	}
	defer p.close(client)
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	if _, ok := p.open(server); !ok {
		return
	}
	defer p.close(server)
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(gate{p, to}, from)
		_ = to.(*net.TCPConn).CloseWrite()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

// gate writes to a connection unless the proxy is stalled; then it waits.
type gate struct {
	proxy *Proxy
	to    io.Writer
}

func (g gate) Write(b []byte) (int, error) {
	g.proxy.mu.Lock()
	for g.proxy.stalled {
		g.proxy.changed.Wait()
	}
	g.proxy.mu.Unlock()
	return g.to.Write(b)
}
