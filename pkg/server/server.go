// Package server runs the listeners and loops of a service as one group: the first failure stops all, a stop drains what is
// in flight, and nothing outlives the group.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config says where a service listens and how it stops.
type Config struct {
	Listen           string        `env:"OPPORTUNITY_LISTEN" envDefault:":8080" doc:"Address of the service port."`
	OperationsListen string        `env:"OPPORTUNITY_OPERATIONS_LISTEN" envDefault:":9090" doc:"Address of the operations port: /livez, /readyz, /metrics."`
	Grace            time.Duration `env:"OPPORTUNITY_SHUTDOWN_GRACE" envDefault:"0s" doc:"How long to go on serving, not ready, after a stop was asked for, so that a load balancer takes notice."`
	Drain            time.Duration `env:"OPPORTUNITY_SHUTDOWN_DRAIN" envDefault:"20s" doc:"How long requests in flight may take to end after that."`

	// Listeners that are already open take the place of the addresses.
	Listener           net.Listener `env:"-"`
	OperationsListener net.Listener `env:"-"`
}

// Open gives the two listeners. On an error neither is left open, except one that was handed in.
func (c Config) Open(ctx context.Context) (service, operations net.Listener, err error) {
	if service, err = Listen(ctx, c.Listen, c.Listener); err != nil {
		return nil, nil, err
	}
	if operations, err = Listen(ctx, c.OperationsListen, c.OperationsListener); err != nil {
		return nil, nil, errors.Join(err, service.Close())
	}
	return service, operations, nil
}

// Listen listens on addr, unless a listener is already there.
func Listen(ctx context.Context, addr string, given net.Listener) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", addr)
}

// Group runs servers and loops until its context ends or one of them fails.
type Group struct {
	cfg   Config
	log   *slog.Logger
	ready *Ready
	errs  *errgroup.Group
	ctx   context.Context
}

// NewGroup makes a group that stops when ctx ends. ready, if not nil, turns to "not ready" as soon as it stops.
func NewGroup(ctx context.Context, cfg Config, log *slog.Logger, ready *Ready) *Group {
	errs, ctx := errgroup.WithContext(ctx)
	return &Group{cfg: cfg, log: log, ready: ready, errs: errs, ctx: ctx}
}

// Limits of a connection. Whoever sends too slowly or too much, or does not read, costs itself the connection and nobody else
// anything.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 60 * time.Second
	writeTimeout  = 60 * time.Second // from the end of the header to the end of the answer; who needs longer sets a deadline of its own
	idleTimeout   = 120 * time.Second
	maxHeader     = 16 << 10
)

// HTTP serves h on ln.
func (g *Group) HTTP(name string, ln net.Listener, h http.Handler) {
	stopping, stop := context.WithCancel(context.WithoutCancel(g.ctx))
	srv := &http.Server{
		Handler: parting(h, g.ctx.Done()), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), // rubbish on the socket is the sender's matter
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
		pause(g.cfg.Grace)
		drain, cancel := context.WithTimeout(stopping, g.cfg.Drain)
		defer cancel()
		if err := srv.Shutdown(drain); err != nil {
			g.log.WarnContext(drain, "requests cut off at shutdown", "listener", name, "error", err.Error())
			_ = srv.Close()
		}
		return nil
	})
}

// parting tells whoever calls while the server stops to make its next call over another connection. One that is kept would lead
// here until it is cut, and a call that is sent in that moment is lost.
func parting(h http.Handler, stopping <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stopping:
			w.Header().Set("Connection", "close")
		default:
		}
		h.ServeHTTP(w, r)
	})
}

func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

type drainKey struct{}

// Draining is closed when the server of r begins to stop: long polls end then instead of holding the drain up.
func Draining(r *http.Request) <-chan struct{} {
	done, _ := r.Context().Value(drainKey{}).(<-chan struct{})
	return done
}

// Go runs a loop beside the servers. An error, other than the end of the group itself, stops the group.
func (g *Group) Go(name string, loop func(ctx context.Context) error) {
	g.errs.Go(func() error {
		if err := loop(g.ctx); err != nil && g.ctx.Err() == nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// Wait blocks until all have stopped. A stop that was asked for is no error.
func (g *Group) Wait() error {
	if err := g.errs.Wait(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
