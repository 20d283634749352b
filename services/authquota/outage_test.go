package authquota_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/authquotatest"
)

// wire is a proxied connection to a server that a test can cut or stall.
type wire struct {
	t      *testing.T
	addr   string
	server string

	flow  sync.RWMutex // locked while stalled
	mu    sync.Mutex
	ln    net.Listener
	conns []net.Conn
	done  sync.WaitGroup
}

func (w *wire) join() {
	w.t.Helper()
	storetest.AwaitForks()
	ln, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", w.addr)
	require.NoError(w.t, err)
	w.ln, w.addr = ln, ln.Addr().String()
	w.done.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", w.server) //nolint:noctx // ended by cut
			if err != nil {
				_ = in.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, in, out)
			w.mu.Unlock()
			w.done.Go(func() { w.copy(in, out) })
			w.done.Go(func() { w.copy(out, in) })
		}
	})
}

// copy copies until one of the two is closed, and then closes to.
func (w *wire) copy(to, from net.Conn) {
	_, _ = io.Copy(to, readerFunc(func(p []byte) (int, error) {
		n, err := from.Read(p)
		w.flow.RLock()
		defer w.flow.RUnlock()
		return n, err
	}))
	_ = to.Close()
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (w *wire) cut() {
	_ = w.ln.Close()
	w.mu.Lock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
	w.mu.Unlock()
	w.done.Wait()
}

// proxied returns a new database, reached through a wire.
func proxied(t *testing.T) (*wire, string) {
	t.Helper()
	u, err := url.Parse(authquotatest.Schema.Postgres(t))
	require.NoError(t, err)
	w := &wire{t: t, addr: "127.0.0.1:0", server: u.Host}
	w.join()
	t.Cleanup(w.cut)
	u.Host = w.addr
	return w, u.String()
}

// A database that accepts connections but does not respond is an outage. Without a limit, the page would wait as long as its visitor.
func TestPagesDoNotWaitForADatabaseThatHangs(t *testing.T) {
	r := redistest.Start(t)
	w, database := proxied(t)
	s := &stores{database: database, redis: r.URL, counters: r}
	svc := s.start(t, func(c *authquota.Config) { c.ResponseTimeout = 2 * time.Second })
	b := svc.browser()
	b.signUp("ada@example.org")

	w.flow.Lock()
	svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError(problem.ServiceUnavailable)
	b.Get("/account").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	b.Post("/account/sign-in", "email", "ada@example.org", "password", authquotatest.Password).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	w.flow.Unlock()

	storetest.Eventually(t, "page", func() bool { return b.Get("/account").Status == http.StatusOK })
}

// During a database outage every request fails with 503. The counters are copied when it is back.
func TestDatabaseOutage(t *testing.T) {
	r := redistest.Start(t)
	w, database := proxied(t)
	s := &stores{database: database, redis: r.URL, counters: r}
	svc := s.start(t)
	key := svc.issue(nil)
	before := svc.principal(key.Key)
	b := svc.browser()
	b.signUp("ada@example.org")

	s.stopped = true
	w.cut()
	svc.resolve(key.Key).RequireError(problem.ServiceUnavailable)
	svc.revoke(key.ID).RequireError(problem.ServiceUnavailable)
	svc.change(key.Account, "grant", `{"tier":"developer"}`).RequireError(problem.ServiceUnavailable)
	svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError(problem.ServiceUnavailable)
	svc.do(http.MethodGet, "/operator/v1/accounts", nil).RequireError(problem.ServiceUnavailable)
	require.Equal(t, http.StatusServiceUnavailable, svc.do(http.MethodGet, "/readyz", nil).Status)
	b.Get("/account").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	b.Post("/account/sign-in", "email", "ada@example.org", "password", authquotatest.Password).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	day := counter.DayOf(before.ExpiresAt.AddDate(-1, 0, 0))
	s.charge(t, day, map[string]int{key.Account: 3})

	w.join()
	storetest.Eventually(t, "ready again", func() bool { return svc.do(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
	s.restored()
	require.Equal(t, before, svc.principal(key.Key), "nothing that was refused was done")
	require.Len(t, svc.listKeys(""), 1)
	b.Get("/account").Shows(http.StatusOK)
	storetest.Eventually(t, "copied", func() bool { return svc.listAccounts()[0].UsedToday == 3 })
}
