package gateway_test

import (
	"context"
	"maps"
	"strings"
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

// While authquota is unavailable over midnight, keys that were resolved before work on every
// gateway, and the account has its quota once on each of the two days.
func TestMidnightWithoutAuthquota(t *testing.T) {
	w, c := newEnvironment(t), newClock()
	midnight := c.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	at := func(since time.Duration) { c.advance(midnight.Add(since).Sub(c.now())) }
	at(-10 * time.Minute)
	replicas := []replica{w.start(c.config), w.start(c.config)}
	const perDay = 20
	key, admitted := w.authquota.issue("acc_a", api.Limits{PerMinute: 1000, PerDay: perDay}), [2]int{}
	for since := -2 * time.Minute; since < 2*time.Minute; since += 10 * time.Second {
		at(since)
		for _, r := range replicas {
			a := r.get(t, key)
			if a.status == 200 {
				admitted[map[bool]int{true: 1}[since >= 0]]++
				continue
			}
			require.Equal(t, "daily_limit_reached", a.code(t), "at %v", c.now())
		}
		w.authquota.set(func() { w.authquota.down = true })
	}
	require.Equal(t, [2]int{perDay, perDay}, admitted)
}
