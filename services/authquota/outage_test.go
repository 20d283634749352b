package authquota_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
)

// A database that accepts connections but does not respond is an outage. Without a limit, the page would wait as long as its visitor.
func TestPagesDoNotWaitForADatabaseThatHangs(t *testing.T) {
	r := redistest.Start(t)
	w, database := storetest.ProxyTo(t, testkit.Schema.Postgres(t))
	s := &stores{database: database, redis: r.URL, counters: r}
	svc := s.start(t, func(c *authquota.Config) { c.ResponseTimeout = 2 * time.Second })
	b := svc.browser()
	b.signUp("ada@example.org")

	w.Stall()
	svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError(problem.ServiceUnavailable)
	b.Get("/account").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	b.Post("/account/sign-in", "email", "ada@example.org", "password", testkit.Password).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	w.Restore()

	storetest.Eventually(t, "page", func() bool { return b.Get("/account").Status == http.StatusOK })
}

// During a database outage every request fails with 503. The counters are copied when it is back.
func TestDatabaseOutage(t *testing.T) {
	r := redistest.Start(t)
	w, database := storetest.ProxyTo(t, testkit.Schema.Postgres(t))
	s := &stores{database: database, redis: r.URL, counters: r}
	svc := s.start(t)
	key := svc.issue(nil)
	before := svc.principal(key.Key)
	b := svc.browser()
	b.signUp("ada@example.org")

	s.stopped = true
	w.Cut()
	svc.resolve(key.Key).RequireError(problem.ServiceUnavailable)
	svc.revoke(key.ID).RequireError(problem.ServiceUnavailable)
	svc.change(key.Account, "grant", `{"tier":"developer"}`).RequireError(problem.ServiceUnavailable)
	svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError(problem.ServiceUnavailable)
	svc.do(http.MethodGet, "/operator/v1/accounts", nil).RequireError(problem.ServiceUnavailable)
	require.Equal(t, http.StatusServiceUnavailable, svc.do(http.MethodGet, "/readyz", nil).Status)
	b.Get("/account").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	b.Post("/account/sign-in", "email", "ada@example.org", "password", testkit.Password).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	day := counter.DayOf(before.ExpiresAt.AddDate(-1, 0, 0))
	s.charge(t, day, map[string]int{key.Account: 3})

	w.Restore()
	storetest.Eventually(t, "ready again", func() bool { return svc.do(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
	s.restored()
	require.Equal(t, before, svc.principal(key.Key), "nothing that was refused was done")
	require.Len(t, svc.listKeys(""), 1)
	b.Get("/account").Shows(http.StatusOK)
	storetest.Eventually(t, "copied", func() bool { return svc.listAccounts()[0].UsedToday == 3 })
}
