package service_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

func TestMain(m *testing.M) { servicetest.Main(m) }

// config is the settings of the service of these tests, with what its start does.
type config struct {
	service.Base

	start func(*service.Runtime) error
}

var definition = service.Definition[config]{
	Name: "test",
	Migrations: fstest.MapFS{
		"migrations/sqlite/00001_test.sql": {Data: []byte("-- +goose Up\nCREATE TABLE things (id bigint);\n")},
		"migrations/postgres/00001_test.sql": {Data: []byte("-- +goose Up\nCREATE TABLE things (id bigint);\nCOMMENT ON TABLE " +
			"things IS 'append-only';\n")},
	},
	Base: func(c config) service.Base { return c.Base },
	Start: func(r *service.Runtime, c config) error {
		r.Handle(server.ServicePort, http.NotFoundHandler())
		r.Handle("admin", http.NotFoundHandler())
		return c.start(r)
	},
}

func run(t *testing.T, cfg config) *servicetest.Service {
	t.Helper()
	return servicetest.Start(t, "test", func(ctx context.Context, server server.Config, telemetry telemetry.Config) error {
		cfg.Server, cfg.Telemetry = server, telemetry
		return definition.Run(ctx, cfg)
	})
}

func readiness(t *testing.T, s *servicetest.Service) servicetest.Response {
	t.Helper()
	return servicetest.Send(t, http.MethodGet, s.OperationsURL+"/readyz", nil, nil)
}

func newConfig(t *testing.T, start func(*service.Runtime) error) config {
	return config{service.Base{
		Database: database.Config{URL: storetest.SQLite(t), MaxConnections: 1},
		Server: server.Config{Listener: servicetest.Listen(t), OperationsListener: servicetest.Listen(t),
			Drain: time.Minute},
		Ports:     []server.Port{{Name: "admin", Listener: servicetest.Listen(t)}},
		Telemetry: telemetry.Config{LogOutput: new(servicetest.Log)},
	}, start}
}

func TestFailedStartClosesListenersAndCleansUp(t *testing.T) {
	for what, spoil := range map[string]func(*config){
		"database": func(c *config) { c.Database.URL = "mysql://x" },
		"port": func(c *config) {
			c.Ports = append(c.Ports, server.Port{Name: "busy", Address: c.Server.Listener.Addr().String()})
		},
		"certificate": func(c *config) { c.TLS = certificate.ServerConfig{CertFile: "/none", KeyFile: "/none"} },
		"start": func(c *config) {
			start := c.start
			c.start = func(r *service.Runtime) error { return errors.Join(start(r), errors.New("no key")) }
		},
		"loop": func(c *config) {
			c.start = func(r *service.Runtime) error {
				r.Go("broken", func(context.Context) error { return errors.New("no price") })
				return nil
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			started, cleaned := 0, 0
			cfg := newConfig(t, func(r *service.Runtime) error {
				started++
				r.Cleanup(func(context.Context) { cleaned++ })
				return nil
			})
			require.NoError(t, definition.Migrate(t.Context(), cfg))
			spoil(&cfg)
			require.Error(t, definition.Run(t.Context(), cfg))
			servicetest.RequireClosed(t, cfg.Server.Listener, cfg.Server.OperationsListener, cfg.Ports[0].Listener)
			require.Equal(t, started, cleaned)
		})
	}
}

func TestLoopsWaitForSchemaAndCleanupFollowsDrain(t *testing.T) {
	looping := make(chan struct{})
	var order []string
	cfg := newConfig(t, func(r *service.Runtime) error {
		r.Ready.Add("schema", r.SchemaCurrent)
		r.Cleanup(func(ctx context.Context) { order = append(order, "first"); require.NoError(t, ctx.Err()) })
		r.Cleanup(func(context.Context) { order = append(order, "second") })
		r.Go("loop", func(ctx context.Context) error {
			require.NoError(t, r.DB.WithContext(ctx).Exec("INSERT INTO things VALUES (1)").Error)
			close(looping)
			<-ctx.Done()
			order = append(order, "loop")
			return ctx.Err()
		})
		return nil
	})
	s := run(t, cfg)
	storetest.Eventually(t, "waiting", func() bool {
		return readiness(t, s).Status == http.StatusServiceUnavailable
	})
	require.NoError(t, definition.Migrate(t.Context(), cfg))
	<-looping
	s.WaitReady()
	s.Stop()
	require.Equal(t, []string{"loop", "second", "first"}, order)
}

// A role that can rewrite append-only tables makes the service not ready, also before the schema
// exists, until its rights are revoked.
func TestServiceWithPowerfulDatabaseRoleIsNotReady(t *testing.T) {
	cfg := newConfig(t, func(r *service.Runtime) error {
		return nil
	})
	owner := storetest.Postgres(t)
	role, asRole := storetest.Role(t, owner)
	cfg.Database.URL = asRole
	s := run(t, cfg)
	storetest.Eventually(t, "waiting for the schema",
		func() bool { return strings.Contains(readiness(t, s).Body, "database role") })

	asOwner := cfg
	asOwner.Database.URL, asOwner.Database.ServingRole = owner, role
	admin := storetest.Must(sql.Open("pgx", owner))(t)
	defer admin.Close()
	_, err := admin.ExecContext(t.Context(), "ALTER DEFAULT PRIVILEGES GRANT UPDATE ON TABLES TO PUBLIC")
	require.NoError(t, err)
	require.NoError(t, definition.Migrate(t.Context(), asOwner))
	const fault = "role %[1]s can UPDATE append-only table public.things: run REVOKE UPDATE ON public.things FROM " +
		"%[1]s, PUBLIC"
	require.Contains(t, readiness(t, s).Body, fmt.Sprintf(fault, role))
	storetest.Eventually(t, "logged", func() bool { return strings.Contains(s.Log.String(), fmt.Sprintf(fault, role)) })
	_, err = admin.ExecContext(t.Context(), "REVOKE UPDATE ON things FROM PUBLIC")
	require.NoError(t, err)
	s.WaitReady()
}

// An unreachable database is reported by its name, also by a service that stays ready.
func TestReadinessNamesTheUnreachableDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		conditions bool
		want       string
	}{
		"needs it": {true,
			`{"status":"not ready","missing":["database"],"faults":["database of test does not respond"]}`},
		"does without": {false, `{"status":"ready","faults":["database of test does not respond"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, through := storetest.ProxyTo(t, storetest.Postgres(t))
			cfg := newConfig(t, func(r *service.Runtime) error {
				if c.conditions {
					r.Ready.Add("schema", r.SchemaReady)
				}
				return nil
			})
			cfg.Database = database.Config{URL: through, MaxConnections: 2, AllowOwner: true}
			require.NoError(t, definition.Migrate(t.Context(), cfg))
			s := run(t, cfg)
			s.WaitReady()
			require.Contains(t, s.Metrics(), `background_loop_interval_seconds{loop="database probe"} 5`)
			require.Contains(t, s.Metrics(), `background_loop_success_timestamp_seconds{loop="database probe"} `)
			proxy.Cut()
			storetest.Eventually(t, c.want, func() bool {
				return readiness(t, s).Body == c.want+"\n"
			})
			proxy.Restore()
			storetest.Eventually(t, "restored", func() bool {
				return readiness(t, s).Body == `{"status":"ready"}`+"\n"
			})
		})
	}
}

func TestFailedRunIsNoSuccessOfItsLoop(t *testing.T) {
	var failing atomic.Bool
	runs := make(chan struct{})
	cfg := newConfig(t, func(r *service.Runtime) error {
		r.Every(service.Loop{Name: "copy", Interval: time.Millisecond, Do: func(ctx context.Context) error {
			select {
			case runs <- struct{}{}:
			case <-ctx.Done():
			}
			return map[bool]error{true: errors.New("no store")}[failing.Load()]
		}})
		return nil
	})
	require.NoError(t, definition.Migrate(t.Context(), cfg))
	s := run(t, cfg)
	success := regexp.MustCompile(`background_loop_success_timestamp_seconds\{loop="copy"\} (\S+)`)
	after := func(fails bool) string {
		failing.Store(fails)
		<-runs
		<-runs // the run before is complete
		return success.FindString(s.Metrics())
	}
	require.NotEqual(t, after(false), after(false))
	require.Equal(t, after(true), after(true))
}

// watching starts a service that watches the service history at base. It returns its readiness.
func watching(t *testing.T, base string) func() servicetest.Response {
	t.Helper()
	cfg := newConfig(t, func(r *service.Runtime) error {
		r.WatchPeer(peer.History, base, peer.Tokens{Peers: []string{"history:" + strings.Repeat("t", 32)}})
		return nil
	})
	require.NoError(t, definition.Migrate(t.Context(), cfg))
	s := run(t, cfg)
	return func() servicetest.Response { return readiness(t, s) }
}

// A service that starts with a wrong token is not ready, so that a rollout keeps the old pods. Once
// its token was accepted, by a peer that need not be ready itself, it stays ready, and names the
// settings to compare if the token is rejected later.
func TestRejectedTokenKeepsNewServiceUnready(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusUnauthorized)
	history := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	defer history.Close()
	readiness := watching(t, history.URL)
	const fault = "test to history (the token of test is rejected: compare history:... in OPPORTUNITY_PEER_TOKENS of " +
		"test with test:... in OPPORTUNITY_CALLER_TOKENS of history)"
	storetest.Eventually(t, "the fault is named", func() bool { return strings.Contains(readiness().Body, fault) })
	require.Equal(t, http.StatusServiceUnavailable, readiness().Status)

	status.Store(http.StatusServiceUnavailable)
	storetest.Eventually(t, "ready", func() bool { return readiness().Status == http.StatusOK })
	require.NotContains(t, readiness().Body, "faults")

	status.Store(http.StatusUnauthorized)
	storetest.Eventually(t, "the fault is reported",
		func() bool { return strings.Contains(readiness().Body, `"faults":["`+fault) })
	require.Equal(t, http.StatusOK, readiness().Status)
	status.Store(http.StatusOK)
	storetest.Eventually(t, "no fault", func() bool { return !strings.Contains(readiness().Body, "faults") })
}

// Services that start together do not wait for each other.
func TestUnreachablePeerDoesNotKeepServiceUnready(t *testing.T) {
	readiness := watching(t, "http://"+storetest.FreeAddress(t))
	storetest.Eventually(t, "ready", func() bool { return readiness().Status == http.StatusOK })
}

// runLoop runs a loop for a time of its fake clock. It returns the times of the runs since the
// start, and the log.
func runLoop(t *testing.T, duration time.Duration, newLoop func() service.Loop) (runs []time.Duration, log string) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLoop() // inside the bubble of the fake clock
		do := l.Do
		l.Do = func(ctx context.Context) error {
			runs = append(runs, time.Since(start))
			return do(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), duration)
		defer cancel()
		l.Run(ctx, slog.New(slog.NewTextHandler(&out, nil)))
	})
	return runs, out.String()
}

func TestLoopLogsFirstFailureAndRecovery(t *testing.T) {
	results := []error{nil, errors.New("no store"), errors.New("still no store"), nil, nil}
	next := 0
	runs, log := runLoop(t, 4*time.Minute+time.Second, func() service.Loop {
		return service.Loop{Name: "copy", Interval: time.Minute, Do: func(context.Context) error {
			next++
			return results[next-1]
		}}
	})
	require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, runs)
	require.Equal(t, 2, strings.Count(log, "\n"), log)
	require.Contains(t, log, `level=ERROR msg="background loop failing" loop=copy error="no store"`)
	require.Contains(t, log, `level=INFO msg="background loop recovered" loop=copy`)
}

func TestLoopRetriesSoonerAndEndsSlowRuns(t *testing.T) {
	runs, log := runLoop(t, 12*time.Second, func() service.Loop {
		return service.Loop{
			Name: "copy", Interval: time.Minute, Retry: time.Second, Timeout: 4 * time.Second,
			Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}
	})
	require.Equal(t, []time.Duration{0, 5 * time.Second, 10 * time.Second}, runs)
	require.Equal(t, 1, strings.Count(log, "\n"), "the end of the service is no failure: %s", log)
}

func TestLoopRunsWhenWoken(t *testing.T) {
	runs, _ := runLoop(t, 25*time.Second, func() service.Loop {
		wake := make(chan struct{})
		return service.Loop{Name: "copy", Interval: time.Minute, Wake: wake, Do: func(ctx context.Context) error {
			time.AfterFunc(10*time.Second, func() {
				select {
				case wake <- struct{}{}:
				case <-ctx.Done():
				}
			})
			return nil
		}}
	})
	require.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, runs)
}
