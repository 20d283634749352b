package authquota_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/dbtx/dbtxtest"
)

// wire is a proxied connection to a server that a test can cut.
type wire struct {
	t      *testing.T
	addr   string
	server string

	mu    sync.Mutex
	ln    net.Listener
	conns []net.Conn
	done  sync.WaitGroup
}

func (w *wire) join() {
	w.t.Helper()
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
			w.done.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
			w.done.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
		}
	})
}

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

// During a database outage every request fails with 503. The counters are copied when it is back.
func TestDatabaseOutage(t *testing.T) {
	r := storetest.Redis(t)
	direct := dbtxtest.Schema.Postgres(t)
	u, err := url.Parse(direct)
	require.NoError(t, err)
	w := &wire{t: t, addr: "127.0.0.1:0", server: u.Host}
	w.join()
	t.Cleanup(w.cut)
	u.Host = w.addr
	s := &stores{database: u.String(), redis: r.URL, counters: r}
	svc := s.start(t)
	key := svc.issue(nil)
	before := svc.principal(key.Key)
	b := svc.browser()
	b.signUp("ada@example.org")

	s.away = true
	w.cut()
	svc.resolve(key.Key).RequireError(problem.ServiceUnavailable)
	svc.revoke(key.ID).RequireError(problem.ServiceUnavailable)
	svc.change(key.Account, "grant", `{"tier":"developer"}`).RequireError(problem.ServiceUnavailable)
	svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError(problem.ServiceUnavailable)
	svc.do(http.MethodGet, "/operator/v1/accounts", nil).RequireError(problem.ServiceUnavailable)
	svc.do(http.MethodGet, "/internal/v1/usage/2026-11-20", nil).RequireError(problem.ServiceUnavailable)
	require.Equal(t, http.StatusServiceUnavailable, svc.do(http.MethodGet, "/readyz", nil).Status)
	b.Get("/account").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	b.Post("/account/sign-in", "email", "ada@example.org", "password", dbtxtest.Password).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
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
