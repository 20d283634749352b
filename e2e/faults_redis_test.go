package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest/redistest"
)

// TestFaultsRedis kills Redis, and moves its clock, under steady traffic.
func TestFaultsRedis(t *testing.T) {
	t.Parallel()
	s, readers := newStackWithReaders(t, parts{})
	t.Run("Redis is killed", func(t *testing.T) { s.killedRedis(t, readers) })
	t.Run("clock of Redis", func(t *testing.T) { s.movedClock(t, readers) })
}

// killedRedis kills Redis, which restarts empty, while many accounts have counters: once for the
// duration of a fault, and then several times for a second.
func (s *stack) killedRedis(t *testing.T, readers []caller) {
	accounts, times := 2_000, 1
	if campaign > 0 {
		accounts, times = 100_000, min(campaign, 10)
	}
	t.Run("many accounts", func(t *testing.T) {
		row := newResult(t, fmt.Sprintf("Redis is killed with %d active accounts and restarts empty", accounts),
			"normal without a repair; at most the calls of one second are forgotten; every account keeps its counter")
		s.charge(t, accounts)
		l := s.killRedis(t, readers, duration())
		day := s.redis.Client().HGetAll(t.Context(), counter.Day(counter.DayOf(time.Now()))).Val()
		for i := range accounts {
			require.Equal(t, "1", day[active(i)])
		}
		if campaign > 0 {
			require.LessOrEqual(t, l.forgotten, l.lastSecond)
		}
		row.set("first call admitted %.2f s and last 503 %.2f s after it replies; %d calls forgotten, %d in the last second before",
			l.first.Seconds(), l.normal.Seconds(), l.forgotten, l.lastSecond)
	})
	t.Run("repeatedly", func(t *testing.T) {
		row := newResult(t, fmt.Sprintf("Redis is killed for a second, %d times", times), "normal without a repair")
		var first, normal []time.Duration
		failed := 0
		for range times {
			l := s.killRedis(t, readers, rate())
			first, normal, failed = append(first, l.first), append(normal, l.normal), failed+l.failed
		}
		row.set("first call admitted after %s, last 503 after %s; %d calls lost each time", spread(first), spread(normal),
			failed/times)
	})
}

func spread(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("%.2f to %.2f s (median %.2f s)", d[0].Seconds(), d[len(d)-1].Seconds(), d[len(d)/2].Seconds())
}

func active(i int) string { return fmt.Sprintf("acc_%032d", i) }

// charge makes one call of each of n accounts, as the gateways count them, and waits until the
// ledger has them.
func (s *stack) charge(t *testing.T, n int) {
	t.Helper()
	c, day := s.redis.Client(), counter.DayOf(time.Now())
	for from := 0; from < n; from += 1000 {
		_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := from; i < min(from+1000, n); i++ {
				p.HSet(t.Context(), counter.Day(day), active(i), 1)
				p.SAdd(t.Context(), counter.Changed(day), active(i), counter.ServiceField)
				p.HIncrBy(t.Context(), counter.Day(day), counter.ServiceField, 1)
			}
			return nil
		})
		require.NoError(t, err)
	}
	eventually(t, "the ledger has the counters",
		func() bool { return c.Exists(t.Context(), counter.Changed(day)).Val() == 0 })
}

// loss describes a loss of Redis. Times are since Redis replied again.
type loss struct {
	first      time.Duration // until the first call was admitted
	normal     time.Duration // until the last rejected call was sent; 0 if there was none
	failed     int           // calls without a 200
	forgotten  int           // admitted calls that the counters lack
	lastSecond int           // calls admitted in the last second before the loss
}

// killRedis kills Redis under traffic, for the time of n calls, and starts it again.
func (s *stack) killRedis(t *testing.T, readers []caller, n int) (l loss) {
	t.Helper()
	before := s.counted(t)
	tr := s.send(t, rate(), readers)
	tr.succeeds()
	tr.next(2 * rate())
	killed := time.Now()
	s.redis.Stop()
	tr.next(n)
	s.redis.Start()
	replies := time.Now()
	tr.succeeds()
	tr.next(rate())
	admitted := 0
	l.first = time.Hour
	for _, c := range tr.end() {
		switch {
		case c.kind == pageCall:
			require.Equal(t, http.StatusOK, c.status)
			continue
		case c.status == http.StatusOK:
			admitted++
			if c.from.After(killed) {
				l.first = min(l.first, c.to.Sub(replies))
			} else if c.from.After(killed.Add(-time.Second)) {
				l.lastSecond++
			}
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, c.status)
		l.failed++
		l.normal = max(l.normal, c.from.Sub(replies))
	}
	l.forgotten = max(0, admitted-(s.counted(t)-before))
	return l
}

// movedClock moves the clock of Redis while an account calls as often as it can.
func (s *stack) movedClock(t *testing.T, readers []caller) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			row := newResult(t, fmt.Sprintf("the clock of Redis moves by %v and back", by),
				"at most 20 calls of an account with a limit of 20 within any 60 s")
			greedy := []caller{{kind: listCall, path: listPath, keys: []issued{s.issue(t, api.Free)}}}
			flood := s.send(t, rate(), greedy)
			e := s.during(t, readers, duration(), func() { s.moveRedisClock(t, by) }, func() { s.moveRedisClock(t, 0) })
			flood.next(duration())
			all := flood.end()
			most := mostIn(all, time.Minute)
			require.LessOrEqual(t, most, 20)
			require.Greater(t, most, 15, "a count of less would find every limit kept")
			var wrong int
			for _, c := range readers {
				by := counts(e.untilBack(c.kind))
				wrong += by[http.StatusServiceUnavailable] + by[http.StatusTooManyRequests]
				delete(by, http.StatusServiceUnavailable)
				require.Equal(t, []int{http.StatusOK}, keysOf(by))
			}
			row.set("%d; %d calls of others answered 503 or 429, the last %.1f s after the clock was right again",
				most, wrong, e.recovery())
		})
	}
}

// TestFaultsRedisFailover kills a Redis primary whose replica lags, so that Sentinels promote the
// replica. It lacks a revocation, and all calls of an account that used up its limit within the
// lag.
func TestFaultsRedisFailover(t *testing.T) {
	t.Parallel()
	row := newResult(t, "Redis primary is killed, Sentinels promote a replica that lags",
		"over-grant at most the calls within the lag; a key revoked within it never gets 200; normal without a repair")
	const limit = 20 // of a free account
	primary := redistest.Start(t)
	replica := primary.Replica()
	s, readers := newStackWithReaders(t, parts{redis: redistest.SentinelURL(primary.Sentinels(3, 3*time.Second))})
	revoked, greedy := s.issue(t, api.Commercial), s.issue(t, api.Free)
	s.knows(t, revoked)
	honest := s.send(t, rate(), readers)
	honest.succeeds()

	detached := time.Now()
	replica.Detach()
	flood := s.send(t, rate(), []caller{{kind: listCall, path: listPath, keys: []issued{greedy}}})
	s.verb(t, "", "keys", "revoke", revoked.ID)
	revocation := time.Now()
	honest.next(rate())
	lost := time.Now()
	primary.Stop()
	// The first calls since the revocation: until now the gateways have no reason to look the key
	// up again.
	victim := s.send(t, rate(), []caller{{kind: listCall, path: listPath, keys: []issued{revoked}}})
	back := honest.succeeds()
	honest.next(duration())
	require.True(t, replica.IsPrimary())
	all, withoutKey, flooded := honest.end(), victim.end(), flood.end()

	require.NotEmpty(t, between(withoutKey, listCall, back, time.Now()))
	for _, c := range withoutKey {
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusServiceUnavailable}, c.status,
			"%s after the revocation", c.from.Sub(revocation))
	}
	inLag := counts(between(flooded, listCall, detached, lost))[http.StatusOK]
	most := mostIn(flooded, time.Minute)
	require.LessOrEqual(t, most, limit+inLag, "calls of an account within 60 s")
	unavailable, normal := 0, lost
	for _, c := range all {
		if c.from.Before(lost) || c.status == http.StatusOK {
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, c.status, c.kind)
		unavailable++
		if c.to.After(normal) {
			normal = c.to
		}
	}
	row.set("normal after %.1f s, %d calls got 503; lag %.1f s, %d calls within it, %d of an account with a limit of %d within 60 s; 0 of %d with the revoked key got 200",
		normal.Sub(lost).Seconds(), unavailable, lost.Sub(detached).Seconds(), inLag, most, limit, len(withoutKey))
}
