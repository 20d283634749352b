package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest/redistest"
)

// clocks are the right time, and the error of the Redis clock.
type clocks struct {
	right time.Time
	redis time.Duration
	away  bool // authquota is unavailable
}

// limiter returns the limiter of a gateway whose clock is wrong by own. The ledger has no calls.
func (c *clocks) limiter(client *redis.Client, own time.Duration) *Limiter {
	return New(Config{
		Redis: client, Tracer: noop.Tracer{}, Log: slog.New(slog.DiscardHandler), Capacity: 1 << 30,
		Restore: func(ctx context.Context, day string) error {
			if c.away {
				return errAway
			}
			return emptyLedger(client)(ctx, day)
		},
		Now:      func() time.Time { return c.right.Add(own) },
		RedisNow: func() time.Time { return c.right.Add(c.redis) },
	})
}

func decide(t require.TestingT, l *Limiter) Decision {
	d, err := l.Admit(context.Background(), principal)
	require.NoError(t, err)
	return d
}

// TestClockSteps lets the Redis clock step an hour ahead, an hour back and to the right time while
// two gateways with clocks half a minute apart admit calls. Each verdict, and the time of the
// decision, must be that of the right clock. Package simulation does so on the embedded server.
func TestClockSteps(t *testing.T) {
	c := redistest.Start(t).Client()
	rapid.Check(t, func(rt *rapid.T) { checkSteps(rt, c) })
}

func checkSteps(t *rapid.T, client *redis.Client) {
	ctx := context.Background()
	require.NoError(t, client.FlushAll(ctx).Err())
	require.NoError(t, client.HSet(ctx, counter.Epochs, principal.Account, principal.Epoch).Err())
	clocks := &clocks{right: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	gateways := []*Limiter{clocks.limiter(client, 30*time.Second),
		clocks.limiter(client, -30*time.Second)}
	var admissions []time.Time
	call := func(gateway *Limiter) {
		recent := 0
		for _, at := range admissions {
			if clocks.right.Sub(at) < span {
				recent++
			}
		}
		d := decide(t, gateway)
		require.Equal(t, recent < principal.Limits.PerMinute, d.Verdict == Admitted,
			"call at %s with %d in the minute before", clocks.right, recent)
		require.Equal(t, clocks.right.UnixMicro(), d.Clock.UnixMicro())
		if d.Verdict == Admitted {
			admissions = append(admissions, clocks.right)
		}
	}
	for _, g := range gateways {
		call(g)
	}
	for range rapid.IntRange(1, 40).Draw(t, "calls") {
		clocks.right = clocks.right.Add(time.Duration(rapid.Int64Range(0, 15_000_000).Draw(t, "elapsed")) * time.Microsecond)
		clocks.redis = rapid.SampledFrom([]time.Duration{clocks.redis, clocks.redis, clocks.redis, 0, time.Hour,
			-time.Hour}).Draw(t, "error of the Redis clock")
		call(rapid.SampledFrom(gateways).Draw(t, "gateway"))
	}
}

// A gateway that starts while the Redis clock is ahead cannot know the right time. Once the clock
// is right, admissions from the future stop counting at once, on this gateway and on one that
// starts then.
func TestClockThatRanAheadDoesNotFreezeLimits(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		for _, restarted := range []bool{false, true} {
			require.NoError(t, c.Del(t.Context(), counter.Window(principal.Account), counter.Clock).Err())
			clocks := &clocks{right: time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC), redis: time.Hour} // ahead on another day
			l := clocks.limiter(c, 0)
			for range principal.Limits.PerMinute {
				require.Equal(t, Admitted, decide(t, l).Verdict)
			}
			require.Equal(t, Rejected, decide(t, l).Verdict)
			require.InDelta(t, 3600, l.ClockOffset(), 1)

			clocks.right, clocks.redis = clocks.right.Add(10*time.Second), 0
			if restarted {
				l = clocks.limiter(c, 0)
				l.day.Add(1) // the day of the clock that was ahead
			}
			for range principal.Limits.PerMinute {
				d := decide(t, l)
				require.Equal(t, []any{Admitted, clocks.right.UnixMicro()}, []any{d.Verdict, d.Clock.UnixMicro()})
			}
			require.Equal(t, Rejected, decide(t, l).Verdict, "the limit at the right time")
			require.Zero(t, l.ClockOffset())
		}
	})
}

// A correction ends when it is no longer needed, even if no gateway saw the Redis clock step back.
func TestCorrectionEnds(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		clocks := &clocks{right: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		l := clocks.limiter(c, 0)
		decide(t, l)
		clocks.redis = time.Hour
		require.Equal(t, clocks.right.UnixMicro(), decide(t, l).Clock.UnixMicro())
		require.Equal(t, "-3600000000", c.HGet(t.Context(), counter.Clock, "correction").Val())

		clocks.right, clocks.redis = clocks.right.Add(time.Minute), 0
		l = clocks.limiter(c, 0)
		decide(t, l) // the first reply shows the correction
		require.Equal(t, clocks.right.UnixMicro(), decide(t, l).Clock.UnixMicro())
		require.Equal(t, "0", c.HGet(t.Context(), counter.Clock, "correction").Val())
	})
}

// Gateways adopt the decision of the one that noticed a step first, even one whose own clock says
// otherwise.
func TestGatewaysAgreeAfterStep(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		clocks := &clocks{right: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), redis: time.Hour}
		right, wrong := clocks.limiter(c, 0), clocks.limiter(c, 2*time.Hour)
		decide(t, right)
		decide(t, wrong)
		clocks.redis = 0
		for range 2 {
			for _, l := range []*Limiter{right, wrong} {
				require.Equal(t, clocks.right.UnixMicro(), decide(t, l).Clock.UnixMicro())
			}
		}
	})
}

var errAway = errors.New("authquota is unavailable")

// A new UTC day needs no other service if a gateway saw the hour before it.
func TestMidnightWithoutAuthquota(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		clocks := &clocks{right: time.Date(2026, 11, 20, 22, 59, 59, 0, time.UTC)}
		l := clocks.limiter(c, 0)
		decide(t, l)
		require.NoError(t, l.OpenNextDay(t.Context()))
		require.Zero(t, c.Exists(t.Context(), counter.Day("2026-11-21")).Val(), "more than an hour before the day")

		clocks.right = clocks.right.Add(time.Second)
		decide(t, l)
		require.NoError(t, l.OpenNextDay(t.Context()))
		require.EqualValues(t, 1, c.Exists(t.Context(), counter.Day("2026-11-21")).Val(), "an hour before the day")

		clocks.right, clocks.away = clocks.right.Add(58*time.Minute), true
		decide(t, l)
		require.NoError(t, l.OpenNextDay(t.Context()))
		clocks.right = time.Date(2026, 11, 21, 0, 0, 1, 0, time.UTC)
		for today := range 2 {
			d := decide(t, l)
			require.Equal(t, []any{Admitted, today + 1, "2026-11-21"}, []any{d.Verdict, d.Today, d.Day.String()})
		}

		// After data loss in Redis, only the ledger knows the calls of a day that has started.
		require.NoError(t, c.Del(t.Context(), counter.Day("2026-11-21")).Err())
		exists, err := l.open(t.Context(), dayOf(clocks.right), "")
		require.NoError(t, err)
		require.False(t, exists)
		_, err = l.Admit(t.Context(), principal)
		require.ErrorIs(t, err, errAway)
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
	})
}

// The counters of the new day are deleted before its first call, or the clocks move past midnight,
// while authquota is unavailable. Gateways that saw the hour before continue at zero; after a call
// of the day, only the ledger knows its calls.
func TestMidnightWithoutCounters(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		clocks := &clocks{right: time.Date(2026, 11, 20, 23, 50, 0, 0, time.UTC)}
		first, second, absent := clocks.limiter(c, 0), clocks.limiter(c, 0), clocks.limiter(c, 0)
		decide(t, first)
		decide(t, second)
		clocks.away = true
		clocks.right = time.Date(2026, 11, 21, 0, 0, 1, 0, time.UTC)
		_, err := absent.Admit(t.Context(), principal)
		require.ErrorIs(t, err, errAway, "a gateway that has not seen the day before")
		for today, l := range []*Limiter{first, first} {
			require.Equal(t, today+1, decide(t, l).Today)
		}
		require.NoError(t, c.Del(t.Context(), counter.Day("2026-11-21")).Err())
		for _, l := range []*Limiter{first, second} {
			_, err := l.Admit(t.Context(), principal)
			require.ErrorIs(t, err, errAway, "calls of the day were lost")
		}
		clocks.away = false
		decide(t, second)
	})
}

// A reply is checked if its time is more than maxAhead before the request was sent, or after the
// reply arrived; one with a correction each correctionInterval, and one that is the first.
func TestRepliesAreCheckedForSteps(t *testing.T) {
	const second, limit = int64(1e6), int64(maxAhead / time.Microsecond)
	const sent, received = 100 * second, 102 * second
	for name, c := range map[string]struct {
		first      bool  // no reply before
		at         int64 // time of the reply with its correction, from the first request on
		correction int64
		unchecked  time.Duration // since the last check
		step       bool
		check      bool
	}{
		"as expected":               {at: sent},
		"as early as possible":      {at: sent - limit},
		"earlier":                   {at: sent - limit - 1, step: true, check: true},
		"as late as possible":       {at: received + limit},
		"later":                     {at: received + limit + 1, step: true, check: true},
		"first":                     {first: true, at: sent + time.Hour.Microseconds()},
		"first with a correction":   {first: true, at: sent, correction: 1, check: true},
		"correction":                {at: sent, correction: 1, unchecked: correctionInterval},
		"correction not checked":    {at: sent, correction: 1, unchecked: correctionInterval + time.Microsecond, check: true},
		"no correction for a while": {at: sent, unchecked: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
			own := began
			clock := newRedisClock(func() time.Time { return own })
			own = began.Add(time.Duration(received) * time.Microsecond)
			if !c.first {
				clock.offset.Store(began.UnixMicro())
			}
			clock.checked.Store(received - c.unchecked.Microseconds())
			var log bytes.Buffer
			reply, checks := source{began.UnixMicro() + c.at - c.correction, c.correction}, 0
			decided := source{began.UnixMicro() + received - 7*second, 9 * second}
			update := func(err error) {
				clock.update(reply, sent, slog.New(slog.NewTextHandler(&log, nil)), func(expected any, at int64) (source, error) {
					checks++
					require.Equal(t, own.UnixMicro(), at)
					if c.first {
						require.Equal(t, "", expected)
					} else {
						require.Equal(t, began.UnixMicro()+received, expected)
					}
					return decided, err
				})
			}
			now, known := clock.now()
			if c.check {
				update(errAway)
				after, stillKnown := clock.now()
				require.Equal(t, []any{now, known, 1}, []any{after, stillKnown, checks}, "while no decision can be made")
				checks = 0
			}
			update(nil)
			require.Equal(t, c.check, checks == 1)
			require.Equal(t, c.step, log.Len() > 0)
			want := reply
			if c.check {
				want = decided
				require.Equal(t, received, clock.checked.Load())
			}
			if c.step {
				require.Contains(t, log.String(), fmt.Sprintf("offset_seconds=%v correction_seconds=9", float64(c.at-received)/1e6))
			}
			now, known = clock.now()
			require.Equal(t, []any{want.redis + want.correction, true}, []any{now, known})
		})
	}
}

func TestTimeToChargeNeedsAKnownClockAndADeadline(t *testing.T) {
	clock := newRedisClock(time.Now)
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	earliest, latest := clock.bounds(limited)
	require.Equal(t, []any{"", ""}, []any{earliest, latest}, "before the first reply")
	clock.offset.Store(1)
	earliest, latest = clock.bounds(t.Context())
	require.Equal(t, []any{"", ""}, []any{earliest, latest}, "without a deadline")
	earliest, latest = clock.bounds(limited)
	require.NotEqual(t, "", earliest)
	require.NotEqual(t, "", latest)
}
