// Package server runs the HTTP servers and background loops of a service as one group. The first
// failure stops them all, and a stop waits for requests in flight.
//
// Open opens all Ports before anything starts, so that an address in use is reported at once. A
// Group serves them and runs the loops. It stops with its context: readiness fails, and requests in
// flight get time to end. Ready holds the conditions of readiness, which Operations serves with the
// metrics.
package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config holds the settings for listening and shutdown.
type Config struct {
	Listen           string        `env:"OPPORTUNITY_LISTEN" envDefault:":8080" doc:"Address of the service port."`
	OperationsListen string        `env:"OPPORTUNITY_OPERATIONS_LISTEN" envDefault:":9090" doc:"Address of the operations port: /livez, /readyz, /metrics."`
	Grace            time.Duration `env:"OPPORTUNITY_SHUTDOWN_GRACE" envDefault:"0s" doc:"How long to keep serving after a stop request while reporting not ready, so that load balancers stop sending requests."`
	Drain            time.Duration `env:"OPPORTUNITY_SHUTDOWN_DRAIN" envDefault:"20s" doc:"How long to wait after that for requests in flight."`

	// Open listeners to use instead of the addresses.
	Listener           net.Listener `env:"-"`
	OperationsListener net.Listener `env:"-"`
}

// Names of the ports of Config, in logs.
const (
	ServicePort    = "service"
	OperationsPort = "operations"
)

// Port is an address on which a service listens.
type Port struct {
	Name     string // in logs
	Setting  string // the environment variable of Address
	Address  string
	Listener net.Listener // used instead of the address, unless nil
}

// Ports returns the ports of c.
func (c Config) Ports() []Port {
	return []Port{
		{OperationsPort, "OPPORTUNITY_OPERATIONS_LISTEN", c.OperationsListen, c.OperationsListener},
		{ServicePort, "OPPORTUNITY_LISTEN", c.Listen, c.Listener},
	}
}

// Validate returns an error unless the address has a port from 0 to 65535. It resolves no name.
func (p Port) Validate() error {
	_, port, err := net.SplitHostPort(p.Address)
	if _, wrong := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); p.Listener == nil &&
		(err != nil || wrong != nil) {
		return fmt.Errorf("%s: %q must be host:port or :port, with a port up to 65535", p.Setting, p.Address)
	}
	return nil
}

// Open returns the ports with a listener each. On an error it closes all listeners.
func Open(ctx context.Context, ports []Port) ([]Port, error) {
	ports = slices.Clone(ports)
	for i, p := range ports {
		if p.Listener != nil {
			continue
		}
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", p.Address)
		if err != nil {
			Close(ports)
			return nil, fmt.Errorf("%s: %w", p.Setting, err)
		}
		ports[i].Listener = ln
	}
	return ports, nil
}

// Close closes the listeners of the ports that have one.
func Close(ports []Port) {
	for _, p := range ports {
		if p.Listener != nil {
			p.Listener.Close()
		}
	}
}

// Group runs servers and loops until its context is done or one of them fails.
type Group struct {
	cfg   Config
	log   *slog.Logger
	ready *Ready
	errs  *errgroup.Group
	ctx   context.Context
}

// NewGroup returns a group that stops when ctx is done. From then on ready, if not nil, reports not
// ready.
func NewGroup(ctx context.Context, cfg Config, log *slog.Logger, ready *Ready) *Group {
	errs, ctx := errgroup.WithContext(ctx)
	return &Group{cfg: cfg, log: log, ready: ready, errs: errs, ctx: ctx}
}

// Limits of a connection. They cut off clients that send too slowly or too much, or do not read.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 60 * time.Second
	// from the end of the request header to the end of the response; handlers can set a later
	// deadline
	writeTimeout = 60 * time.Second
	idleTimeout  = 120 * time.Second
	maxHeader    = 16 << 10
)

// HTTP serves h on ln.
func (g *Group) HTTP(name string, ln net.Listener, h http.Handler) {
	stopping, stop := context.WithCancel(context.WithoutCancel(g.ctx))
	srv := &http.Server{
		Handler: closing(h, g.ctx.Done()), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout,
		IdleTimeout:  idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), // malformed requests are the client's fault
		BaseContext: func(net.Listener) context.Context { return context.WithValue(stopping, drainKey{}, g.ctx.Done()) },
	}
	g.errs.Go(func() error {
		defer stop()
		failed := make(chan error, 1)
		go func() { failed <- srv.Serve(ln) }()
		g.log.InfoContext(g.ctx, "listening", "listener", name, "address", ln.Addr().String())
		select {
		case err := <-failed:
			return fmt.Errorf("%s: %w", name, err)
		case <-g.ctx.Done():
		}
		g.ready.stop()
		time.Sleep(g.cfg.Grace)
		drain, cancel := context.WithTimeout(stopping, g.cfg.Drain)
		defer cancel()
		if err := srv.Shutdown(drain); err != nil {
			g.log.WarnContext(drain, "requests cut off at shutdown", "listener", name, "error", err.Error())
			_ = srv.Close()
		}
		return nil
	})
}

const maxRest = 256 << 10 // bytes

// closing adds "Connection: close" to responses while the server stops, so that clients send the
// next request over another connection. A request sent over a kept connection just when the server
// closes it would be lost.
//
// It also adds it to the response to each request in which a Content-Length may contradict a
// Transfer-Encoding: a proxy in front may take another end of the body, and the rest for the next
// request of another client (RFC 9112, section 6.1). net/http drops the Content-Length of a chunked
// request and the Transfer-Encoding of an HTTP/1.0 request, so all of these are closed. A short
// rest of the body is read first, as net/http does before it keeps a connection: a client that
// still sends could otherwise miss the response.
func closing(h http.Handler, stopping <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stopping:
			w.Header().Set("Connection", "close")
		default:
			if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
				w.Header().Set("Connection", "close")
				defer func() { _, _ = io.CopyN(io.Discard, r.Body, maxRest) }() // an error ends the connection as well
			}
		}
		h.ServeHTTP(w, r)
	})
}

type drainKey struct{}

// Draining returns a channel that is closed when the server of r begins to stop. Long polls must
// end then, so as not to delay the stop.
func Draining(r *http.Request) <-chan struct{} {
	done, _ := r.Context().Value(drainKey{}).(<-chan struct{})
	return done
}

// Go runs a background loop. If it returns an error before the group stops, the group stops with
// that error.
func (g *Group) Go(name string, loop func(ctx context.Context) error) {
	g.errs.Go(func() error {
		if err := loop(g.ctx); err != nil && g.ctx.Err() == nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// Wait blocks until all servers and loops have stopped. It returns the first error, and nil if the
// context of the group was done.
func (g *Group) Wait() error { return g.errs.Wait() }
