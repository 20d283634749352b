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

// pays makes a key of an account that has paid until an instant.
func (w *world) pays(account string, until time.Time) apikey.Key {
	return w.authority.issue(account, commercial, func(p *api.Principal) {
		p.Tier, p.Next = api.Commercial, &api.PrincipalChange{At: until, Tier: api.Free, Limits: free}
		p.ExpiresAt = until.Add(24 * time.Hour)
	})
}

// byPlan answers as history does: by what it is told of the caller.
func byPlan(w http.ResponseWriter, r *http.Request) {
	var caller api.Caller
	if json.Unmarshal([]byte(r.Header.Get(api.CallerHeader)), &caller) != nil || !caller.History {
		says(http.StatusPaymentRequired, `{"error":{"code":"subscription_required"}}`)(w, r)
		return
	}
	says(http.StatusOK, `{"data":[]}`)(w, r)
}

// awayFromMidnight is a clock that does not come to another day, with other counters, for as far as these tests move it. It begins with
// a whole microsecond, which is what counters are exact to.
func awayFromMidnight() *clock {
	c := newClock()
	c.nanos.Store(c.now().Truncate(time.Microsecond).UnixNano())
	if left := c.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(c.now()); left < 15*time.Minute {
		c.advance(-15 * time.Minute)
	}
	return c
}

// The last call before the second at which the paid period ends has what was paid for, the next one at that second has not: with the same
// key, with authquota and billing away, and with what was used kept.
func TestThePaidPeriodEndsOnItsSecond(t *testing.T) {
	const history = "/api/v1/opportunities/a/history"
	w, c := newWorld(t), awayFromMidnight()
	s := w.seller()
	gw := w.start(c.config, func(cfg *gateway.Config) { cfg.BillingURL = s.URL })
	w.history.will(byPlan)
	key := w.pays("acc_a", c.now().Add(30*time.Second))
	ask := func(path string) answer { return gw.do(t, request{key: key, path: path}) }
	told := func(a answer, status, limit, left int) {
		t.Helper()
		require.Equal(t, status, a.status, "%s", a.body)
		require.Equal(t, strconv.Itoa(limit), a.header.Get("X-RateLimit-Limit"))
		require.Equal(t, strconv.Itoa(left), a.header.Get("X-RateLimit-Remaining"))
	}
	told(ask(history), 200, 10000, 9999)
	s.Close()
	w.authority.set(func() { w.authority.down = true })
	c.advance(30*time.Second - 1)
	last := ask(history)
	told(last, 200, 10000, 9998)
	require.Contains(t, last.header.Get("RateLimit-Policy"), `"minute";q=300`)
	c.advance(1)
	next := ask(history)
	told(next, 402, 100, 98)
	require.Contains(t, next.header.Get("RateLimit-Policy"), `"minute";q=10`)
	require.Equal(t, "subscription_required", next.code(t))
	told(ask(""), 200, 100, 97)
	catalog := w.catalog.requests()
	require.JSONEq(t, `{"tier":"free","pageSize":10,"history":false}`, catalog[len(catalog)-1].Header.Get(api.CallerHeader))
	require.Equal(t, 1, w.authority.asked())

	w.authority.set(func() { w.authority.down = false })
	w.authority.change(key, func(p *api.Principal) { p.Next.At = c.now().Add(time.Hour) })
	told(ask(history), 200, 10000, 9996) // paid again: what was kept of the key is dropped although it has changed by itself
	require.Equal(t, 2, w.authority.asked())
}

// A renewal that comes before the end takes its place.
func TestARenewalPostponesTheEnd(t *testing.T) {
	w, c := newWorld(t), awayFromMidnight()
	gw := w.start(c.config)
	w.history.will(byPlan)
	until := c.now().Add(30 * time.Second)
	key := w.pays("acc_a", until)
	ask := func() int { return gw.do(t, request{key: key, path: "/api/v1/opportunities/a/history"}).status }
	require.Equal(t, 200, ask())
	w.authority.change(key, func(p *api.Principal) {
		p.Next = &api.PrincipalChange{At: until.Add(30 * time.Second), Tier: api.Free, Limits: free}
	})
	require.Equal(t, 200, ask())
	c.advance(30 * time.Second)
	require.Equal(t, 200, ask())
	c.advance(30 * time.Second)
	require.Equal(t, 402, ask())
}

// A suspension and an expiry hold whatever is paid for, before its end and after it.
func TestTheEndOfAPaidPeriodOpensNothing(t *testing.T) {
	w, c := newWorld(t), awayFromMidnight()
	gw := w.start(c.config)
	suspended, expired := w.pays("acc_a", c.now().Add(time.Second)), w.pays("acc_b", c.now().Add(time.Second))
	w.authority.change(suspended, func(p *api.Principal) { p.Suspended = true })
	w.authority.change(expired, func(p *api.Principal) { p.ExpiresAt = c.now().Add(time.Second) })
	require.Equal(t, "account_suspended", gw.get(t, suspended).code(t))
	require.Equal(t, 200, gw.get(t, expired).status)
	c.advance(time.Second)
	require.Equal(t, "account_suspended", gw.get(t, suspended).code(t))
	require.Equal(t, "expired_api_key", gw.get(t, expired).code(t))
	w.authority.change(suspended, func(p *api.Principal) { p.Suspended = false })
	require.Equal(t, 200, gw.get(t, suspended).status)
}

// The minute before the end counts under the lower limit: no 60 seconds after the end hold more than ten calls, and those of before are
// among them. Once more is paid for, they are all still known.
func TestTheMinuteAroundTheEnd(t *testing.T) {
	w, c := newWorld(t), awayFromMidnight()
	gw := w.start(c.config)
	key := w.pays("acc_a", c.now().Add(26*time.Second))
	for range 25 { // one each second
		require.Equal(t, 200, gw.get(t, key).status)
		c.advance(time.Second)
	}
	c.advance(time.Second) // the end: the tenth newest call is eleven seconds old
	a := gw.get(t, key)
	require.Equal(t, "minute_limit_reached", a.code(t))
	require.Equal(t, "49", a.header.Get("Retry-After"))
	require.Equal(t, "75", a.header.Get("X-RateLimit-Remaining"))
	c.advance(49*time.Second - time.Microsecond)
	require.Equal(t, 429, gw.get(t, key).status)
	c.advance(time.Microsecond)
	require.Equal(t, 200, gw.get(t, key).status)
	require.Equal(t, 429, gw.get(t, key).status)
	w.authority.change(key, func(p *api.Principal) { p.Next.At = c.now().Add(time.Hour) })
	a = gw.get(t, key)
	require.Equal(t, 200, a.status)
	require.Contains(t, a.header.Get("RateLimit"), `"minute";r=289;`, "nine of before, one since, and this one")
}
