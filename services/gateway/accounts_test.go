package gateway_test

import (
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

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
