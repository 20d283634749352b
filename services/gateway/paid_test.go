package gateway_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/services/gateway"
)

var (
	commercial = api.Limits{PerMinute: 300, PerDay: 10000, PageSize: 100, History: true}
	free       = api.Limits{PerMinute: 10, PerDay: 100, PageSize: 10}
)

// issuePaid creates a key of an account that has paid until the given time.
func (w *environment) issuePaid(account string, until time.Time) apikey.Key {
	return w.authquota.issue(account, commercial, func(p *api.Principal) {
		p.Tier, p.Next = api.Commercial, &api.PrincipalChange{At: until, Tier: api.Free, Limits: free}
		p.ExpiresAt = until.Add(24 * time.Hour)
	})
}

// requireHistory responds like the history service: 402 unless the plan includes history.
func requireHistory(w http.ResponseWriter, r *http.Request) {
	var caller api.Caller
	if json.Unmarshal([]byte(r.Header.Get(api.CallerHeader)), &caller) != nil || !caller.History {
		respond(http.StatusPaymentRequired, `{"error":{"code":"subscription_required"}}`)(w, r)
		return
	}
	respond(http.StatusOK, `{"data":[]}`)(w, r)
}

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
	const history = "/api/v1/opportunities/a/history"
	w, c := newEnvironment(t), clockAwayFromMidnight()
	s := newService(t)
	gw := w.start(c.config, func(cfg *gateway.Config) { cfg.BillingURL = s.URL })
	w.history.respondWith(requireHistory)
	key := w.issuePaid("acc_a", c.now().Add(30*time.Second))
	get := func(path string) response { return gw.do(t, request{key: key, path: path}) }
	check := func(a response, status, limit, remaining int) {
		t.Helper()
		require.Equal(t, status, a.status, "%s", a.body)
		require.Equal(t, strconv.Itoa(limit), a.header.Get("X-RateLimit-Limit"))
		require.Equal(t, strconv.Itoa(remaining), a.header.Get("X-RateLimit-Remaining"))
	}
	check(get(history), 200, 10000, 9999)
	s.Close()
	w.authquota.set(func() { w.authquota.down = true })
	c.advance(30*time.Second - 1)
	last := get(history)
	check(last, 200, 10000, 9998)
	require.Contains(t, last.header.Get("RateLimit-Policy"), `"minute";q=300`)
	c.advance(1)
	next := get(history)
	check(next, 402, 100, 98)
	require.Contains(t, next.header.Get("RateLimit-Policy"), `"minute";q=10`)
	require.Equal(t, "subscription_required", next.code(t))
	check(get(""), 200, 100, 97)
	catalog := w.catalog.requests()
	require.JSONEq(t, `{"tier":"free","pageSize":10,"history":false}`,
		catalog[len(catalog)-1].Header.Get(api.CallerHeader))
	require.Equal(t, 1, w.authquota.lookupCount())

	w.authquota.set(func() { w.authquota.down = false })
	w.authquota.change(key, func(p *api.Principal) { p.Next.At = c.now().Add(time.Hour) })
	// renewed: the cached principal is replaced although its scheduled change has applied
	check(get(history), 200, 10000, 9996)
	require.Equal(t, 2, w.authquota.lookupCount())
}
