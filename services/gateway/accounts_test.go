package gateway_test

import (
	"context"
	"fmt"
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

func TestWhoCalls(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	good := w.authority.issue("acc_good", developer).Reveal()
	past := time.Now().Add(-time.Second)
	expired := w.authority.issue("acc_expired", developer, func(p *api.Principal) { p.ExpiresAt = past }).Reveal()
	revoked := w.authority.issue("acc_revoked", developer, func(p *api.Principal) { p.RevokedAt = &past }).Reveal()
	suspended := w.authority.issue("acc_suspended", developer, func(p *api.Principal) { p.Suspended = true }).Reveal()
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
		"twice":                {[]string{"Bearer " + good, "Bearer " + good}, 401, "invalid_api_key", 0},
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
				gw.do(t, request{header: http.Header{"Authorization": {"Bearer " + good}}}) // cached from here on
			}
			before := w.authority.asked()
			a := gw.do(t, request{header: http.Header{"Authorization": c.headers}})
			require.Equal(t, c.status, a.status, a.body)
			if c.code != "" {
				require.Equal(t, c.code, a.code(t))
				require.Empty(t, a.header.Get("X-RateLimit-Limit"))
			}
			if c.status == 401 {
				require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			}
			if name != "good" && name != "unknown" { // cached by another case; looked up only if the machine is too busy to sync
				require.Equal(t, before+c.lookups, w.authority.asked())
			}
		})
	}
	calls, _ := w.used("acc_suspended")
	require.Zero(t, calls)
}

// Of L + n calls at once over three replicas exactly L are admitted, and charged.
func TestLimitsHoldOverReplicas(t *testing.T) {
	w := newWorld(t)
	replicas := []replica{w.start(), w.start(), w.start()}
	const more = 25
	for _, limit := range []int{10, 60, 300} {
		for kind, limits := range map[string]api.Limits{
			"minute": {PerMinute: limit, PerDay: 100_000}, "day": {PerMinute: 100_000, PerDay: limit},
		} {
			t.Run(fmt.Sprint(kind, limit), func(t *testing.T) {
				account := fmt.Sprintf("acc_%s_%d", kind, limit)
				key := w.authority.issue(account, limits)
				contend(t, limit, more, func(i int) answer { return replicas[i%3].get(t, key) })
				calls, _ := w.used(account)
				require.Equal(t, limit, calls)
			})
		}
	}
	_, before := w.used("")
	t.Run("service", func(t *testing.T) {
		const room = 40
		capped := []replica{}
		for range 3 {
			capped = append(capped, w.start(func(cfg *gateway.Config) { cfg.ServiceCapacity = before + room }))
		}
		var keys [5]apikey.Key
		for i := range keys {
			keys[i] = w.authority.issue(fmt.Sprintf("acc_s%d", i), developer)
		}
		contend(t, room, more, func(i int) answer { return capped[i%3].get(t, keys[i%5]) })
	})
}

// contend makes limit+more calls at once and fails unless limit of them, and no more, are served. Where the machine is too busy to
// ask Redis in time a call is answered 503 and made again; the first may have been charged, so that somebody else is refused.
func contend(t *testing.T, limit, more int, call func(int) answer) {
	t.Helper()
	var undecided atomic.Int32
	statuses := crowd(t, limit+more, func(i int) (a answer) {
		storetest.Eventually(t, "a decision", func() bool {
			if a = call(i); a.status == http.StatusServiceUnavailable {
				undecided.Add(1)
			}
			return a.status != http.StatusServiceUnavailable
		})
		return a
	})
	require.Equal(t, limit+more, statuses[200]+statuses[429], "%v", statuses)
	require.LessOrEqual(t, statuses[200], limit)
	require.GreaterOrEqual(t, statuses[200], limit-int(undecided.Load()))
}

// crowd makes n calls at once and counts the answers by status.
func crowd(t *testing.T, n int, call func(int) answer) map[int]int {
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

// A change at authquota is in force on the next request, on every replica, however well the key is cached there.
func TestChangesHoldAtOnceEverywhere(t *testing.T) {
	w := newWorld(t)
	replicas := []replica{w.start(), w.start(), w.start()}
	key := w.authority.issue("acc_a", developer)
	everywhere := func(check func(a answer)) {
		for _, r := range replicas {
			check(r.get(t, key))
		}
	}
	everywhere(func(a answer) { require.Equal(t, 200, a.status) })
	for range 3 {
		w.authority.change(key, func(p *api.Principal) { p.Suspended = true })
		everywhere(func(a answer) { require.Equal(t, "account_suspended", a.code(t)) })
		w.authority.change(key, func(p *api.Principal) { p.Suspended = false })
		everywhere(func(a answer) { require.Equal(t, 200, a.status) })
	}
	calls, _ := w.used("acc_a")
	require.Equal(t, 12, calls, "refusals cost nothing")
	w.authority.change(key, func(p *api.Principal) { p.Limits.PerDay = 5 })
	everywhere(func(a answer) {
		require.Equal(t, "daily_limit_reached", a.code(t))
		require.Equal(t, "5", a.header.Get("X-RateLimit-Limit"))
		require.Equal(t, "0", a.header.Get("X-RateLimit-Remaining"), "never below zero")
	})
	w.authority.change(key, func(p *api.Principal) { p.Tier, p.Limits.PerDay = api.Commercial, 500 })
	left := 500 - calls
	everywhere(func(a answer) {
		require.Equal(t, 200, a.status)
		left--
		require.Equal(t, strconv.Itoa(left), a.header.Get("X-RateLimit-Remaining"), "what was used stays used")
	})
	now := time.Now()
	w.authority.change(key, func(p *api.Principal) { p.RevokedAt = &now })
	everywhere(func(a answer) { require.Equal(t, "revoked_api_key", a.code(t)) })
}

// While an account changes under concurrent calls, no call ever ends otherwise than under one of its states.
func TestChangesUnderLoad(t *testing.T) {
	w, gw, _ := freshWorld(t)
	key := w.authority.issue("acc_b", api.Limits{PerMinute: 100_000, PerDay: 100_000})
	var stop atomic.Bool
	var changes sync.WaitGroup
	changes.Go(func() {
		for suspended := true; !stop.Load(); suspended = !suspended {
			w.authority.change(key, func(p *api.Principal) { p.Suspended = suspended })
		}
	})
	statuses := crowd(t, 200, func(int) answer { return gw.get(t, key) })
	stop.Store(true)
	changes.Wait()
	for status := range statuses {
		require.Contains(t, []int{200, 403, 503}, status)
	}
	calls, _ := w.used("acc_b")
	require.Equal(t, statuses[200], calls)
}

// A Redis that lost everything gives nothing back: the counters come from the ledger before anything is charged.
func TestFlushGivesNothingBack(t *testing.T) {
	w := newWorld(t)
	replicas := []replica{w.start(), w.start()}
	key := w.authority.issue("acc_a", api.Limits{PerMinute: 100, PerDay: 10})
	for range 10 {
		require.Equal(t, 200, replicas[0].get(t, key).status)
	}
	w.authority.set(func() {
		w.authority.usage = api.DayUsage{Service: 10, Accounts: map[string]int{"acc_a": 10, "acc_z": 0}}
	})
	w.redis.Flush()
	for _, r := range replicas {
		a := r.get(t, key)
		require.Equal(t, "daily_limit_reached", a.code(t))
		require.Equal(t, "0", a.header.Get("X-RateLimit-Remaining"))
	}
	calls, all := w.used("acc_a")
	require.Equal(t, []int{10, 10}, []int{calls, all})

	ctx := context.Background()
	keys := w.counters.Scan(ctx, 0, "*", 100).Iterator()
	for keys.Next(ctx) {
		require.Positive(t, w.counters.PTTL(ctx, keys.Val()).Val(), "key %s does not expire", keys.Val())
		require.True(t, strings.HasPrefix(keys.Val(), counter.Tag))
	}
}

// Without the ledger there are no counters to charge: better no answer than an allowance twice.
func TestNoLedgerAfterFlush(t *testing.T) {
	w, gw, key := freshWorld(t)
	require.Equal(t, 200, gw.get(t, key).status)
	epoch := w.counters.HGetAll(context.Background(), counter.Epochs).Val()
	w.redis.Flush()
	require.NoError(t, w.counters.HSet(context.Background(), counter.Epochs, epoch).Err())
	w.authority.set(func() { w.authority.down = true })
	a := gw.get(t, key)
	require.Equal(t, "service_unavailable", a.code(t))
	w.authority.set(func() { w.authority.down = false })
	require.Equal(t, 200, gw.get(t, key).status)
}

// Redis stopped: 503 for everybody, and service by itself when it is back.
func TestRedisStopped(t *testing.T) {
	w, gw, key := freshWorld(t)
	suspended := w.authority.issue("acc_s", developer, func(p *api.Principal) { p.Suspended = true })
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
	require.Equal(t, "missing_api_key", gw.do(t, request{}).code(t), "what needs no Redis is answered as ever")
	require.Equal(t, 200, gw.do(t, request{path: "/docs"}).status)
	require.Equal(t, map[string]int{"served": 2, "refused": 2, "our_fault": 20, "upstream_fault": 0}, w.outcomes())
	w.redis.Start()
	storetest.Eventually(t, "service with Redis", func() bool { return gw.get(t, key).status == 200 })
}

// clock is a clock that tests move.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.nanos.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time             { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration)    { c.nanos.Add(int64(d)) }
func (c *clock) config(cfg *gateway.Config) { cfg.Now = c.now }

// authquota away: keys that are known serve for five minutes after they were last answered, others not at all.
func TestAuthquotaAway(t *testing.T) {
	w, c := newWorld(t), newClock()
	gw := w.start(c.config)
	known, other := w.authority.issue("acc_a", developer), w.authority.issue("acc_b", developer)
	require.Equal(t, 200, gw.get(t, known).status)
	w.authority.set(func() { w.authority.down = true })
	c.advance(5*time.Minute - time.Second)
	require.Equal(t, 200, gw.get(t, known).status, "the counters are of the same day, or the ledger would be asked")
	a := gw.get(t, other)
	require.Equal(t, "service_unavailable", a.code(t))
	require.Equal(t, "1", a.header.Get("Retry-After"))
	c.advance(time.Second)
	require.Equal(t, "service_unavailable", gw.get(t, known).code(t))
	w.authority.set(func() { w.authority.down = false })
	require.Equal(t, 200, gw.get(t, known).status)
	require.Equal(t, 200, gw.get(t, other).status)
}

// Known keys are asked for again in the background; an answer that is out of date by then is noticed without an epoch.
func TestKnownKeysAreRefreshed(t *testing.T) {
	w, c := newWorld(t), newClock()
	gw := w.start(c.config)
	key := w.authority.issue("acc_a", developer)
	require.Equal(t, 200, gw.get(t, key).status)
	require.Equal(t, 200, gw.get(t, key).status)
	require.Equal(t, 1, w.authority.asked())
	c.advance(time.Minute)
	require.Equal(t, 200, gw.get(t, key).status)
	storetest.Eventually(t, "a refresh", func() bool { return w.authority.asked() == 2 })
}

// A key expires on the instant, although it is cached.
func TestExpiryWhileCached(t *testing.T) {
	w, c := newWorld(t), newClock()
	gw := w.start(c.config)
	key := w.authority.issue("acc_a", developer, func(p *api.Principal) { p.ExpiresAt = c.now().Add(30 * time.Second) })
	require.Equal(t, 200, gw.get(t, key).status)
	c.advance(30*time.Second - 1)
	require.Equal(t, 200, gw.get(t, key).status)
	c.advance(1)
	require.Equal(t, "expired_api_key", gw.get(t, key).code(t))
}

// While guesses pour in from an address, each gets 401 and authquota looks few of them up: none, unless the machine is too busy to
// sync in time. A valid key from there is admitted.
func TestGuessing(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	before := w.authority.asked()
	key := w.authority.issue("acc_a", developer)
	const n = 400
	statuses := crowd(t, n+1, func(i int) answer {
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
	require.LessOrEqual(t, w.authority.asked(), before+1+60)
}

// Without the list of keys (an authquota of an older release) guesses are looked up within a limit for each network. Beyond it the
// gateway knows nothing about a key, and says so; a cached key is not affected.
func TestGuessingWithoutTheListOfKeys(t *testing.T) {
	w, c := newWorld(t), newClock()
	w.authority.set(func() { w.authority.unlisted = true })
	gw := w.start(c.config, func(cfg *gateway.Config) { cfg.TrustedProxies = []string{"127.0.0.0/8"} })
	key := w.authority.issue("acc_a", developer)
	from := func(address string, key apikey.Key) answer {
		return gw.do(t, request{key: key, header: http.Header{"X-Forwarded-For": {"203.0.113.99, " + address}}})
	}
	require.Equal(t, 200, from("198.51.100.1", key).status)
	for range 30 {
		require.Equal(t, "invalid_api_key", from("198.51.100.1", apikey.Generate(apikey.Live)).code(t))
	}
	a := from("198.51.100.1", apikey.Generate(apikey.Live))
	require.Equal(t, "service_unavailable", a.code(t))
	require.Contains(t, a.body, "API keys cannot be checked right now. Retry in 1 second.")
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, 31, w.authority.asked())
	require.Equal(t, 200, from("198.51.100.1", key).status)
	require.Equal(t, 401, from("198.51.100.2", apikey.Generate(apikey.Live)).status, "another address")
	c.advance(time.Second)
	require.Equal(t, 401, from("198.51.100.1", apikey.Generate(apikey.Live)).status)
	require.Equal(t, 503, from("198.51.100.1", apikey.Generate(apikey.Live)).status)
}

// Without a trusted proxy a caller cannot choose its address.
func TestGuessingBehindForgedAddresses(t *testing.T) {
	w, c := newWorld(t), newClock()
	w.authority.set(func() { w.authority.unlisted = true })
	gw := w.start(c.config)
	last := answer{}
	for i := range 33 {
		last = gw.do(t, request{key: apikey.Generate(apikey.Live), header: http.Header{"X-Forwarded-For": {fmt.Sprintf("198.51.100.%d", i)}}})
	}
	require.Equal(t, 503, last.status)
}

// Midnight by the counters' clock splits days; what is given back is given back on the day it was charged on.
func TestMidnight(t *testing.T) {
	w, c := newWorld(t), newClock()
	gw := w.start(c.config)
	key := w.authority.issue("acc_a", api.Limits{PerMinute: 100, PerDay: 2})
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
	w.catalog.will(func(rw http.ResponseWriter, r *http.Request) {
		c.advance(24 * time.Hour) // the answer comes on another day
		says(400, `{"error":{}}`)(rw, r)
	})
	a = gw.get(t, key)
	require.Equal(t, 400, a.status)
	require.Equal(t, "2", a.header.Get("X-RateLimit-Remaining"))
	require.Equal(t, strconv.FormatInt(day.Add(48*time.Hour).Unix(), 10), a.header.Get("X-RateLimit-Reset"), "the day it was charged to")
	for i, want := range []string{"2", "0"} {
		got := w.counters.HGet(context.Background(), counter.Day(counter.DayOf(day.AddDate(0, 0, i))), "acc_a").Val()
		require.Equal(t, want, got)
	}
}
