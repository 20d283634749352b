package gateway_test

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

func TestAuthentication(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	good := w.authquota.issue("acc_good", developer).Reveal()
	past := time.Now().Add(-time.Second)
	expired := w.authquota.issue("acc_expired", developer, func(p *api.Principal) { p.ExpiresAt = past }).Reveal()
	revoked := w.authquota.issue("acc_revoked", developer, func(p *api.Principal) { p.RevokedAt = &past }).Reveal()
	suspended := w.authquota.issue("acc_suspended", developer, func(p *api.Principal) { p.Suspended = true }).Reveal()
	typo := good[:20] + "a" + good[21:]
	if typo == good {
		typo = good[:20] + "b" + good[21:]
	}
	for name, c := range map[string]struct {
		headers []string
		status  int
		code    string
		lookups int
	}{
		"none":                 {nil, 401, "missing_api_key", 0},
		"empty":                {[]string{""}, 401, "missing_api_key", 0},
		"scheme alone":         {[]string{"Bearer"}, 401, "missing_api_key", 0},
		"scheme and spaces":    {[]string{"Bearer   "}, 401, "missing_api_key", 0},
		"another scheme":       {[]string{"Basic " + good}, 401, "missing_api_key", 0},
		"no scheme":            {[]string{good}, 401, "missing_api_key", 0},
		"twice":                {[]string{"Bearer " + good, "Bearer " + good}, 401, "missing_api_key", 0},
		"two tokens":           {[]string{"Bearer " + good + " " + good}, 401, "invalid_api_key", 0},
		"not a key":            {[]string{"Bearer hello"}, 401, "invalid_api_key", 0},
		"one character wrong":  {[]string{"Bearer " + typo}, 401, "invalid_api_key", 0},
		"upper case":           {[]string{"Bearer " + strings.ToUpper(good)}, 401, "invalid_api_key", 0},
		"unknown":              {[]string{"Bearer " + apikey.Generate(apikey.Live).Reveal()}, 401, "invalid_api_key", 0},
		"expired":              {[]string{"Bearer " + expired}, 401, "expired_api_key", 1},
		"revoked":              {[]string{"Bearer " + revoked}, 401, "revoked_api_key", 1},
		"suspended":            {[]string{"Bearer " + suspended}, 403, "account_suspended", 1},
		"good":                 {[]string{"Bearer " + good}, 200, "", 1},
		"good, scheme in caps": {[]string{"BEARER " + good}, 200, "", 0},
		"good, more spaces":    {[]string{"bearer   " + good}, 200, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "good, ") {
				gw.do(t, request{header: http.Header{"Authorization": {"Bearer " + good}}}) // now cached
			}
			before := w.authquota.lookupCount()
			a := gw.do(t, request{header: http.Header{"Authorization": c.headers}})
			require.Equal(t, c.status, a.status, a.body)
			if c.code != "" {
				require.Equal(t, c.code, a.code(t))
				require.Empty(t, a.header.Get("X-RateLimit-Limit"))
			}
			if c.status == 401 {
				require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			}
			// "good" may be cached by another case; a guess is looked up only if a sync times out
			if name != "good" && name != "unknown" {
				require.Equal(t, before+c.lookups, w.authquota.lookupCount())
			}
		})
	}
	calls, _ := w.charged("acc_suspended")
	require.Zero(t, calls)
}

// countStatuses makes n concurrent calls and counts the responses by status.
func countStatuses(t *testing.T, n int, call func(int) response) map[int]int {
	t.Helper()
	statuses := make([]int, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { statuses[i] = call(i).status })
	}
	all.Wait()
	count := map[int]int{}
	for _, s := range statuses {
		count[s]++
	}
	return count
}

// After data loss in Redis the counters are loaded from the ledger, so the used quota stays used.
func TestRedisFlushKeepsUsedQuota(t *testing.T) {
	w := newEnvironment(t)
	replicas := []replica{w.start(), w.start()}
	key := w.authquota.issue("acc_a", api.Limits{PerMinute: 100, PerDay: 10})
	for range 10 {
		require.Equal(t, 200, replicas[0].get(t, key).status)
	}
	w.authquota.set(func() {
		w.authquota.ledger = map[string]any{counter.ServiceField: 10, "acc_a": 10, "acc_z": 0}
	})
	w.redis.Flush()
	for _, r := range replicas {
		a := r.get(t, key)
		require.Equal(t, "daily_limit_reached", a.code(t))
		require.Equal(t, "0", a.header.Get("X-RateLimit-Remaining"))
	}
	calls, all := w.charged("acc_a")
	require.Equal(t, []int{10, 10}, []int{calls, all})

	ctx := context.Background()
	keys := w.counters.Scan(ctx, 0, "*", 100).Iterator()
	for keys.Next(ctx) {
		require.Positive(t, w.counters.PTTL(ctx, keys.Val()).Val(), "key %s does not expire", keys.Val())
		require.True(t, strings.HasPrefix(keys.Val(), counter.Tag))
	}
}

// Without the ledger, missing counters mean 503: starting at zero would grant the quota twice.
func TestLedgerUnavailableAfterFlush(t *testing.T) {
	w, gw, key := startWithKey(t)
	require.Equal(t, 200, gw.get(t, key).status)
	epoch := w.counters.HGetAll(context.Background(), counter.Epochs).Val()
	w.redis.Flush()
	require.NoError(t, w.counters.HSet(context.Background(), counter.Epochs, epoch).Err())
	w.authquota.set(func() { w.authquota.down = true })
	a := gw.get(t, key)
	require.Equal(t, "service_unavailable", a.code(t))
	w.authquota.set(func() { w.authquota.down = false })
	require.Equal(t, 200, gw.get(t, key).status)
}

// While Redis is stopped, calls get 503. Service resumes automatically.
func TestRedisStopped(t *testing.T) {
	w, gw, key := startWithKey(t)
	suspended := w.authquota.issue("acc_s", developer, func(p *api.Principal) { p.Suspended = true })
	require.Equal(t, 200, gw.get(t, key).status)
	require.Equal(t, 403, gw.get(t, suspended).status)
	w.redis.Stop()
	for range 10 {
		for _, k := range []apikey.Key{key, suspended} {
			a := gw.get(t, k)
			require.Equal(t, "service_unavailable", a.code(t))
			require.Equal(t, "1", a.header.Get("Retry-After"))
		}
	}
	require.Equal(t, "missing_api_key", gw.do(t, request{}).code(t), "response that needs no Redis")
	require.Equal(t, 200, gw.do(t, request{path: "/docs"}).status)
	storetest.Eventually(t, "outcomes", func() bool { // counted after the response
		return maps.Equal(w.outcomes(), map[string]int{"served": 2, "refused": 2, "our_fault": 20, "upstream_fault": 0})
	})
	w.redis.Start()
	storetest.Eventually(t, "service resumes", func() bool { return gw.get(t, key).status == 200 })
}

// clock is a clock that tests set.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.nanos.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time             { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration)    { c.nanos.Add(int64(d)) }
func (c *clock) config(cfg *gateway.Config) { cfg.Now, cfg.RedisNow = c.now, c.now }

// While authquota is unavailable, cached keys work for five minutes after their last lookup, and
// other keys get 503.
func TestAuthquotaUnavailable(t *testing.T) {
	w, c := newEnvironment(t), newClock()
	gw := w.start(c.config)
	known, other := w.authquota.issue("acc_a", developer), w.authquota.issue("acc_b", developer)
	require.Equal(t, 200, gw.get(t, known).status)
	w.authquota.set(func() { w.authquota.down = true })
	c.advance(5*time.Minute - time.Second)
	require.Equal(t, 200, gw.get(t, known).status, "cached key (fails if midnight passes, which needs the ledger)")
	a := gw.get(t, other)
	require.Equal(t, "service_unavailable", a.code(t))
	require.Equal(t, "1", a.header.Get("Retry-After"))
	c.advance(time.Second)
	require.Equal(t, "service_unavailable", gw.get(t, known).code(t))
	w.authquota.set(func() { w.authquota.down = false })
	require.Equal(t, 200, gw.get(t, known).status)
	require.Equal(t, 200, gw.get(t, other).status)
}

// Guesses get 401, and a valid key from the same address works. There are fewer guesses than their
// limit, with which a sync that times out on a busy machine would reject them. What reaches
// authquota is tested in the package authn.
func TestGuessing(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	key := w.authquota.issue("acc_a", developer)
	const n = 25
	statuses := countStatuses(t, n+1, func(i int) response {
		if i == n/2 {
			return gw.get(t, key)
		}
		a := gw.get(t, apikey.Generate(apikey.Live))
		if code := a.code(t); code != "invalid_api_key" {
			t.Error(code)
		}
		return a
	})
	require.Equal(t, map[int]int{200: 1, 401: n}, statuses)
}

// Days end at midnight by the Redis clock. A refund goes to the day of the charge.
func TestMidnight(t *testing.T) {
	w, c := newEnvironment(t), newClock()
	gw := w.start(c.config)
	key := w.authquota.issue("acc_a", api.Limits{PerMinute: 100, PerDay: 2})
	day := c.now().UTC().Truncate(24 * time.Hour)
	c.advance(day.Add(24*time.Hour - time.Millisecond).Sub(c.now()))
	for range 2 {
		require.Equal(t, 200, gw.get(t, key).status)
	}
	a := gw.get(t, key)
	require.Equal(t, "daily_limit_reached", a.code(t))
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, strconv.FormatInt(day.Add(24*time.Hour).Unix(), 10), a.header.Get("X-RateLimit-Reset"))
	require.Contains(t, a.header.Get("RateLimit"), `"day";r=0;t=1`)

	c.advance(time.Millisecond)
	w.catalog.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		c.advance(24 * time.Hour) // the response arrives on another day
		respond(400, `{"error":{}}`)(rw, r)
	})
	a = gw.get(t, key)
	require.Equal(t, 400, a.status)
	require.Equal(t, "2", a.header.Get("X-RateLimit-Remaining"))
	require.Equal(t, strconv.FormatInt(day.Add(48*time.Hour).Unix(), 10), a.header.Get("X-RateLimit-Reset"),
		"reset of the charged day")
	for i, want := range []string{"2", "0"} {
		got := w.counters.HGet(context.Background(), counter.Day(counter.DayOf(day.AddDate(0, 0, i))), "acc_a").Val()
		require.Equal(t, want, got)
	}
}
