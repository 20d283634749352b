package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
)

// TestFaultsAuthquota makes authquota slow when all keys are due for a refresh, and unavailable at
// midnight. The clocks of Redis and the gateways move together. It does not run beside other tests:
// on a busy machine, calls fail that wait longer than 200 ms for Redis.
func TestFaultsAuthquota(t *testing.T) {
	const perDay = 25
	midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	s := newStackOn(t, parts{clocks: make([]time.Duration, gateways), ahead: time.Until(midnight) - 20*time.Minute},
		fmt.Sprintf("OPPORTUNITY_TIERS=commercial=10000/10000000/100,free=1000/%d/10", perDay),
		"OPPORTUNITY_SERVICE_CAPACITY=100000000")
	s.fill(t)
	readers := s.readers(t)
	t.Run("slow", func(t *testing.T) { s.slowAuthquota(t, readers) })
	t.Run("midnight", func(t *testing.T) { s.midnight(t, readers, midnight, perDay) })
}

// advance moves the clocks of Redis and the gateways forward to a time.
func (s *stack) advance(t testing.TB, to time.Time) { s.moveRedisClock(t, time.Until(to)) }

// now returns the time by these clocks.
func (s *stack) now(t testing.TB) time.Time {
	t.Helper()
	return s.redis.Client().Time(t.Context()).Val()
}

// slowAuthquota delays every response of authquota by three seconds, when every cached key is due
// for a refresh.
func (s *stack) slowAuthquota(t *testing.T, readers []caller) {
	row := newResult(t, "authquota answers 3 s late, with all keys due for a refresh",
		"every call with a known key succeeds; beyond the first 16, at most 2 refreshes a second of a gateway")
	known := slices.Clone(readers[:3])
	for range 60 { // without a limit, all would be refreshed at once
		known[0].keys = append(known[0].keys, s.issue(t, api.Commercial))
	}
	known[1].keys, known[2].keys = known[0].keys, known[0].keys
	s.knows(t, known[0].keys...)
	const perSecond = 300             // enough to use every key on each gateway within a second
	n := max(campaign, 3) * perSecond // a refresh is counted when it fails, after two seconds
	tr := s.send(t, perSecond, known)
	tr.succeeds()
	start := time.Now()
	tr.next(max(campaign*perSecond, duration()))
	l, before := s.link("gateway", "authquota"), s.refreshes(t)
	l.delay(3 * time.Second)
	begin := time.Now()
	s.advance(t, s.now(t).Add(61*time.Second))
	tr.next(n)
	end := time.Now()
	after, counted := s.refreshes(t), time.Now()
	l.repair()
	calls := tr.end()

	requireServed(t, calls, "known keys")
	most := 0
	for i := range after {
		most = max(most, after[i]-before[i])
	}
	require.LessOrEqual(t, most, 16+int(2*counted.Sub(begin).Seconds()))
	usual, during := p99(calls, start, begin), p99(calls, begin, end)
	require.NotZero(t, most)
	inTime := slices.DeleteFunc(calls, func(c sent) bool { return c.from.Before(start) || !c.from.Before(end) })
	row.set("%.0f calls a second; at most %d refreshes of a gateway in %.1f s; p99 %v before, %v during it",
		float64(len(inTime))/end.Sub(start).Seconds(), most, end.Sub(begin).Seconds(), usual.Round(100*time.Microsecond),
		during.Round(100*time.Microsecond))
}

func p99(calls []sent, from, to time.Time) time.Duration {
	var all []time.Duration
	for _, c := range calls {
		if !c.from.Before(from) && c.from.Before(to) {
			all = append(all, c.to.Sub(c.from))
		}
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

var refreshCount = regexp.MustCompile(`(?m)^gateway_key_lookups_total\{[^}]*reason="refresh"[^}]*\} (\d+)$`)

func (s *stack) refreshes(t testing.TB) (all []int) {
	t.Helper()
	for _, operations := range s.operations[len(s.operations)-gateways:] {
		sum := 0
		for _, found := range refreshCount.FindAllStringSubmatch(string(get(t, operations, "", "/metrics").body), -1) {
			n := storetest.Must(strconv.Atoi(found[1]))(t)
			sum += n
		}
		all = append(all, sum)
	}
	return all
}

// midnight makes authquota unavailable from 23:58 to 00:03 while some accounts call more often than
// their quota of the day allows.
func (s *stack) midnight(t *testing.T, readers []caller, midnight time.Time, perDay int) {
	row := newResult(t, "authquota is unavailable from 23:58 to 00:03 UTC",
		"every call with a known key succeeds; each account has its quota of the day exactly once on each day")
	greedy := []caller{{kind: "greedy", path: listPath}}
	for range max(2, min(campaign, 20)) {
		greedy[0].keys = append(greedy[0].keys, s.issue(t, api.Free))
	}
	s.advance(t, midnight.Add(-2*time.Minute))
	s.knows(t, readers[0].keys...)
	s.knows(t, greedy[0].keys...) // one call to each gateway
	honest := s.send(t, rate(), readers)
	honest.succeeds()
	begin := time.Now()
	l := s.link("gateway", "authquota")
	l.cut()
	flood := s.send(t, 2*rate(), greedy)
	var day time.Time // when the new day began
	for last := midnight.Add(170 * time.Second); s.now(t).Before(last); {
		honest.next(max(3, duration()/75))
		s.advance(t, s.now(t).Add(4*time.Second))
		if day.IsZero() && s.now(t).After(midnight) {
			day = time.Now()
		}
	}
	end := time.Now()
	admitted := flood.end()
	s.advance(t, midnight.Add(3*time.Minute))
	l.repair()
	back := honest.succeeds()
	calls := honest.end()

	for _, c := range readers {
		if c.kind != pageCall {
			requireServed(t, between(calls, c.kind, begin, end), c.kind)
		}
	}
	require.Equal(t, []int{http.StatusOK, http.StatusTooManyRequests}, keysOf(counts(admitted)))
	require.LessOrEqual(t, mostIn(between(admitted, "greedy", day, end), end.Sub(day)), perDay)
	for i, at := range []time.Time{midnight.Add(-time.Hour), midnight} {
		used := s.redis.Client().HGetAll(t.Context(), counter.Day(counter.DayOf(at))).Val()
		for _, key := range greedy[0].keys {
			require.Equal(t, strconv.Itoa(perDay), used[key.Account], "day %d", i)
		}
	}
	require.Equal(t, (2*perDay-gateways)*len(greedy[0].keys), counts(admitted)[http.StatusOK])
	row.set("%d accounts, %d calls each on both days; %d calls of others, all 200; %d pages got 503; normal %.1f s after it was back",
		len(greedy[0].keys), perDay, len(calls)-len(between(calls, pageCall, begin, time.Now())),
		unavailable(t, between(calls, pageCall, begin, back)), back.Sub(end).Seconds())
}
