package gateway_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway"
)

var (
	commercial = api.Limits{PerMinute: 300, PerDay: 10000, PageSize: 100, History: true}
	free       = api.Limits{PerMinute: 10, PerDay: 100, PageSize: 10}
)

// clockAwayFromMidnight returns a clock at least 15 minutes before midnight, so that these tests
// stay on one day. It starts at a whole microsecond, the precision of the counters.
func clockAwayFromMidnight() *clock {
	c := newClock()
	c.nanos.Store(c.now().Truncate(time.Microsecond).UnixNano())
	if left := c.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(c.now()); left < 15*time.Minute {
		c.advance(-15 * time.Minute)
	}
	return c
}

// The last call before the end of a paid period has the paid plan, and the first one at the end has
// the free plan, with the same key and used quota, while authquota and billing are unavailable.
func TestPaidPeriodEndsOnTime(t *testing.T) {
	w, c := newEnvironment(t), clockAwayFromMidnight()
	billing := newService(t)
	gw := w.start(c.config, func(cfg *gateway.Config) { cfg.BillingURL = billing.URL })
	key := w.authquota.issue("acc_a", commercial, func(p *api.Principal) {
		p.Tier, p.ExpiresAt = api.Commercial, c.now().Add(24*time.Hour)
		p.Next = &api.PrincipalChange{At: c.now().Add(30 * time.Second), Tier: api.Free, Limits: free}
	})
	check := func(caller string, limit, remaining int) {
		t.Helper()
		a := gw.get(t, key)
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Equal(t, strconv.Itoa(limit), a.header.Get("X-RateLimit-Limit"))
		require.Equal(t, strconv.Itoa(remaining), a.header.Get("X-RateLimit-Remaining"))
		seen := w.catalog.requests()
		require.JSONEq(t, caller, seen[len(seen)-1].Header.Get(api.CallerHeader))
	}
	const paid, unpaid = `{"tier":"commercial","pageSize":100,"history":true}`, `{"tier":"free","pageSize":10,"history":false}`
	check(paid, 10000, 9999)
	billing.Close()
	w.authquota.set(func() { w.authquota.down = true })
	c.advance(30*time.Second - 1)
	check(paid, 10000, 9998)
	c.advance(1)
	check(unpaid, 100, 97)
	require.Equal(t, 1, w.authquota.lookupCount())

	w.authquota.set(func() { w.authquota.down = false })
	w.authquota.change(key, func(p *api.Principal) { p.Next.At = c.now().Add(time.Hour) })
	// renewed: the cached principal is replaced although its scheduled change has applied
	check(paid, 10000, 9996)
}
