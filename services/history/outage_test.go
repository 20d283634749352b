package history_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// databaseProxy is a proxy between the service and its database that a test can cut or block.
type databaseProxy struct {
	to    string
	mu    sync.Mutex
	state string // "" forwards, "cut" closes every connection, "stuck" blocks all data
	pairs []net.Conn
	moved *sync.Cond
}

func newDatabaseProxy(t testing.TB, to string) (c *databaseProxy, address string) {
	t.Helper()
	ln := servicetest.Listen(t)
	c = &databaseProxy{to: to}
	c.moved = sync.NewCond(&c.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { c.carry(in) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		c.set("cut")
		running.Wait()
	})
	return c, ln.Addr().String()
}

func (c *databaseProxy) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to) //nolint:noctx // closed by set
	if err != nil {
		return
	}
	defer out.Close()
	c.mu.Lock()
	if c.state == "cut" {
		c.mu.Unlock()
		return
	}
	c.pairs = append(c.pairs, in, out)
	c.mu.Unlock()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) func() {
		return func() {
			_, _ = io.Copy(c.gate(to), from)
			_ = in.Close()
			_ = out.Close()
		}
	}
	both.Go(pass(out, in))
	both.Go(pass(in, out))
	both.Wait()
}

// gate returns a writer to w that blocks while the cable is stuck.
func (c *databaseProxy) gate(w io.Writer) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		c.mu.Lock()
		for c.state == "stuck" {
			c.moved.Wait()
		}
		c.mu.Unlock()
		return w.Write(b)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (c *databaseProxy) set(state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
	if state == "cut" {
		for _, conn := range c.pairs {
			_ = conn.Close()
		}
		c.pairs = nil
	}
	c.moved.Broadcast()
}

func TestOutageOfPostgresIs503AndServiceRecovers(t *testing.T) {
	direct := schema.Postgres(t)
	u, err := url.Parse(direct)
	require.NoError(t, err)
	database, address := newDatabaseProxy(t, u.Host)
	u.Host = address
	c := newCatalog(t)
	c.set("a", true)
	s := run(t, config(u.String(), c.URL), c)
	s.record(line("a", "2026-11-01T00:00:00Z", api.Review, api.OutcomeVerified))

	const path = "/api/v1/opportunities/a/history"
	before := s.get(path)
	tag := before.Header.Get("ETag")
	require.NotEmpty(t, tag)
	for _, state := range []string{"cut", "stuck"} {
		t.Run(state, func(t *testing.T) {
			database.set(state)
			a := s.get(path, "If-None-Match", tag)
			a.RequireError("service_unavailable")
			require.Equal(t, "1", a.Header.Get("Retry-After"))
			require.Equal(t, http.StatusServiceUnavailable, s.get("/readyz").Status)
			s.Do(http.MethodGet, path, "", as(api.Free)...).RequireError("subscription_required")
			if state == "cut" {
				s.get("/internal/v1/summaries").RequireError("service_unavailable")
				s.Do(http.MethodPost, "/operator/v1/events/append", line("a", "2026-11-02T00:00:00Z", api.Review, api.OutcomeClosed)).RequireError("service_unavailable")
			}
			database.set("")
			storetest.Eventually(t, "the service recovers", func() bool { return s.get(path).Status == http.StatusOK })
			require.Equal(t, before.Body, s.get(path).Body, "the failed append must leave nothing")
		})
	}
}
