package service

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
)

// Runtime is one run of a service or of one of its verbs. Start adds handlers and loops to it.
type Runtime struct {
	*telemetry.Telemetry

	DB    *database.DB // nil without a database
	Ready server.Ready // the conditions for the service to be ready; none at first
	Now   func() time.Time

	name        string
	roots       func() *x509.CertPool // nil: those of the system
	connections *peer.Transport       // nil until the first peer
	migrations  fs.FS
	handlers    map[string]http.Handler
	loops       []func(*server.Group)
	cleanups    []func(context.Context)

	successes, intervals *prometheus.GaugeVec // of loops, by name
}

// Handle sets the handler of a port: server.ServicePort, or one of Base.Ports. Every port needs
// one.
func (r *Runtime) Handle(port string, h http.Handler) {
	r.handlers[port] = h
}

// Go adds a background loop. It starts once the schema is current. If it returns an error before
// its context ends, the service stops with that error.
func (r *Runtime) Go(name string, run func(ctx context.Context) error) {
	r.loops = append(r.loops, func(group *server.Group) { group.Go(name, run) })
}

// Every adds a background loop that never stops the service; see Loop. Two metrics have its
// interval and its latest success.
func (r *Runtime) Every(l Loop) {
	r.Go(l.Name, r.measured(l))
}

func (r *Runtime) measured(l Loop) func(context.Context) error {
	success, do := r.successes.WithLabelValues(l.Name), l.Do
	success.SetToCurrentTime()
	r.intervals.WithLabelValues(l.Name).Set(l.Interval.Seconds())
	l.Do = func(ctx context.Context) error {
		err := do(ctx)
		if err == nil {
			success.SetToCurrentTime()
		}
		return err
	}
	return func(ctx context.Context) error { l.Run(ctx, r.Log); return nil }
}

// Cleanup adds a function to be called after the drain, or after an error. The functions are called
// in reverse order. Their context does not end with that of the service.
func (r *Runtime) Cleanup(f func(context.Context)) { r.cleanups = append(r.cleanups, f) }

// SchemaCurrent returns an error unless the schema has the version of this binary or a newer one.
func (r *Runtime) SchemaCurrent(ctx context.Context) error {
	if r.DB == nil {
		return nil
	}
	return r.DB.Current(ctx, r.migrations)
}

// SchemaReady is SchemaCurrent as a condition of readiness with the name "schema". While the
// database is unavailable, its name is "database".
func (r *Runtime) SchemaReady(ctx context.Context) error { return nameOutage(r.SchemaCurrent(ctx)) }

func nameOutage(err error) error {
	if database.IsUnavailable(err) {
		return server.Fault("database")
	}
	return err
}

// watchDatabase returns a loop that reports in the readiness if the database is unreachable or
// accepts no writes. The service may serve reads meanwhile.
func (r *Runtime) watchDatabase() func(context.Context) error {
	var fault atomic.Pointer[string]
	r.Ready.Report(func() string {
		if text := fault.Load(); text != nil {
			return *text
		}
		return ""
	})
	return r.measured(Loop{Name: "database probe", Interval: probeInterval, Retry: time.Second, Timeout: probeTimeout,
		Do: func(ctx context.Context) error {
			err := r.DB.Probe(ctx)
			if err == nil {
				fault.Store(nil)
				return nil
			}
			text := fmt.Sprintf("database of %s: %v", r.name, err)
			if database.IsUnavailable(err) {
				text = "database of " + r.name + " does not respond"
			}
			fault.Store(&text)
			return err
		}})
}

const (
	probeInterval = 5 * time.Second
	probeTimeout  = 2 * time.Second
)

// servingRole returns an error unless the schema is current and the database role is one to serve
// with. An error about the rights of the role is a Detail of readiness.
func (r *Runtime) servingRole(ctx context.Context) error {
	if err := r.SchemaCurrent(ctx); r.DB == nil || err != nil {
		return err
	}
	err := r.DB.RequireServingRole(ctx)
	if role := database.RoleError(""); errors.As(err, &role) {
		return server.Detail(role)
	}
	return err
}

// Redis opens a client, which is closed in the cleanup. It does not connect yet.
func (r *Runtime) Redis(cfg redisdb.Config) (*redis.Client, error) {
	client, err := redisdb.Open(cfg, r.Telemetry)
	if err != nil {
		return nil, err
	}
	r.Cleanup(func(context.Context) { _ = client.Close() })
	return client, nil
}

// Connections returns the transport of the process for requests to peers. Its requests are limited
// by their contexts only.
func (r *Runtime) Connections() *peer.Transport {
	if r.connections == nil {
		r.connections = r.NewConnections(0)
	}
	return r.connections
}

// NewConnections returns another transport, with a limit on the time to the header of a response.
// Its connections are closed in the cleanup.
func (r *Runtime) NewConnections(headerTimeout time.Duration) *peer.Transport {
	t := peer.NewTransport(r.roots, headerTimeout)
	r.Cleanup(func(context.Context) { t.CloseIdleConnections() })
	return t
}

// Peer returns a client of the service name at base, a URL without a trailing slash.
func (r *Runtime) Peer(name, base string, tokens peer.Tokens) *peer.Client {
	return peer.New(base, tokens.For(name), r.Transport(r.Connections(), name))
}

// CheckPeer returns an error unless the service to at base is ready for this one: a
// peer.SettingsError, *peer.NotReadyError or *peer.FaultError if it responds.
func (r *Runtime) CheckPeer(ctx context.Context, to, base string, tokens peer.Tokens) error {
	return tokens.CheckReady(ctx, r.name, to, base, r.roots)
}

func (r *Runtime) serve(ctx context.Context, cfg server.Config, ports []server.Port,
	withTLS func(net.Listener) net.Listener) error {
	r.Handle(server.OperationsPort, server.Operations(&r.Ready, r.Metrics()))
	r.Ready.Add("database role", server.Once(func(ctx context.Context) error { return nameOutage(r.servingRole(ctx)) }))
	group := server.NewGroup(ctx, cfg, r.Log, &r.Ready)
	if r.DB != nil {
		group.Go("database probe", r.watchDatabase())
	}
	for _, p := range ports {
		ln := p.Listener
		if p.Name == server.ServicePort {
			ln = withTLS(ln)
		}
		group.HTTP(p.Name, ln, r.handlers[p.Name])
	}
	group.Go("schema", func(ctx context.Context) error {
		if r.DB != nil {
			if err := r.DB.Await(ctx, r.Telemetry, r.migrations); err != nil {
				return err
			}
			if role := server.Detail(""); errors.As(r.servingRole(ctx), &role) {
				r.Log.ErrorContext(ctx, "database role not accepted", "error", role)
			}
		}
		for _, start := range r.loops {
			start(group)
		}
		return nil
	})
	return group.Wait()
}

func (r *Runtime) cleanUp(ctx context.Context) {
	for _, f := range slices.Backward(r.cleanups) {
		f(ctx)
	}
}
