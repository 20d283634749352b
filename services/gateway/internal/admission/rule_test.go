package admission

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/storetest"
)

// servers are the two servers that the scripts must work on.
func servers(t *testing.T) map[string]string {
	t.Helper()
	inProcess, err := embedded.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(inProcess.Close)
	return map[string]string{"redis": storetest.Redis(t).URL, "embedded": inProcess.URL()}
}

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	require.NoError(t, err)
	o.DisableIdentity = true
	c := redis.NewClient(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// The naive log: every admission that ever happened, and sums over it. It shares no idea with the script.
type naive struct {
	capacity int
	calls    []*call
}

type call struct {
	account  string
	at       time.Time
	refunded bool
}

// now is the clock, or the latest admission of all where the clock was set back behind it.
func (n *naive) now(clock time.Time) time.Time {
	for _, c := range n.calls {
		if c.at.After(clock) {
			clock = c.at
		}
	}
	return clock
}

type figures struct {
	service, today, recent int
}

func (n *naive) figures(account string, now time.Time) (f figures) {
	for _, c := range n.calls {
		sameDay := c.at.Format(time.DateOnly) == now.Format(time.DateOnly)
		if sameDay && !c.refunded {
			f.service++
			if c.account == account {
				f.today++
			}
		}
		if c.account == account && now.Sub(c.at) < Span {
			f.recent++
		}
	}
	return f
}

func (n *naive) admits(account string, limits api.Limits, clock time.Time) bool {
	f := n.figures(account, n.now(clock))
	return f.service < n.capacity && f.today < limits.PerDay && f.recent < limits.PerMinute
}

// TestScriptAgainstNaiveLog holds the script, on both servers, and the rule in Go against the naive log, over random arrivals
// on a clock that also stands still, jumps over midnight and is set back.
func TestScriptAgainstNaiveLog(t *testing.T) {
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			c := client(t, url)
			rapid.Check(t, func(rt *rapid.T) { compare(rt, c) })
		})
	}
}

func compare(t *rapid.T, c *redis.Client) {
	ctx := context.Background()
	require.NoError(t, c.FlushAll(ctx).Err())
	clock := time.Date(2026, 11, 20, 23, 57, rapid.IntRange(0, 59).Draw(t, "second"), rapid.IntRange(0, 999_999).Draw(t, "µs")*1000, time.UTC)
	log := &naive{capacity: rapid.IntRange(1, 25).Draw(t, "capacity")}
	rule := map[string]Spent{}
	limiter := New(c, noop.Tracer{}, log.capacity, func(_ context.Context, day string) (api.DayUsage, error) {
		return api.DayUsage{Day: day}, nil
	}, func() time.Time { return clock })
	accounts := []string{"acc_a", "acc_b", "acc_c"}
	for _, account := range accounts {
		require.NoError(t, c.HSet(ctx, counter.Epochs, account, 7).Err())
	}
	require.NoError(t, c.Expire(ctx, counter.Epochs, time.Hour).Err())

	type admission struct {
		call     *call
		decision Decision
	}
	var owed []admission
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		clock = clock.Add(time.Duration(rapid.OneOf(
			rapid.Just(int64(0)), rapid.Int64Range(0, 3_000_000), rapid.Int64Range(0, 59_000_000), rapid.Int64Range(-2_000_000, 0),
			rapid.Just(int64(Span/time.Microsecond)), rapid.Int64Range(0, 400_000_000),
		).Draw(t, "elapsed")) * time.Microsecond)
		if len(owed) > 0 && rapid.IntRange(0, 3).Draw(t, "refund") == 0 {
			i := rapid.IntRange(0, len(owed)-1).Draw(t, "which")
			a := owed[i]
			owed = slices.Delete(owed, i, i+1)
			require.NoError(t, limiter.Refund(ctx, a.call.account, &a.decision))
			a.call.refunded = true
			require.Equal(t, log.figures(a.call.account, a.call.at).today, a.decision.Today, "calls after a refund")
			continue
		}
		// Calls that share a batch; they are decided one after the other.
		batch := make([]*pending, rapid.IntRange(1, 4).Draw(t, "batch"))
		for i := range batch {
			limits := api.Limits{PerMinute: rapid.IntRange(1, 6).Draw(t, "minute"), PerDay: rapid.IntRange(1, 12).Draw(t, "day")}
			batch[i] = &pending{principal: &api.Principal{Account: rapid.SampledFrom(accounts).Draw(t, "account"), Epoch: 7, Limits: limits}}
		}
		// Those that need another day or counters first are told so and come again, alone.
		var again []*pending
		admitted := map[string]bool{}
		decided := func(p *pending, d Decision) {
			account, limits := p.principal.Account, p.principal.Limits
			now := log.now(clock)
			want, before := log.admits(account, limits, clock), log.figures(account, now)
			require.Equal(t, want, d.Verdict == Admitted, "verdict at %s with %+v of %+v", clock, before, limits)
			require.Equal(t, before.service >= log.capacity, d.ServiceFull)
			require.Equal(t, before.today >= limits.PerDay, d.DayFull)
			require.Equal(t, before.recent >= limits.PerMinute, d.MinuteFull)

			spent := rule[account] // the rule shares day, service and time among accounts by way of the log
			spent.Today, spent.Service, spent.Latest = before.today, before.service, now
			byRule, after := Decide(spent, limits, log.capacity, clock)
			rule[account] = after
			require.Equal(t, byRule.Clock.UnixMicro(), d.Clock.UnixMicro())
			byRule.Clock = d.Clock
			require.Equal(t, byRule, d, "script and rule")
			if want {
				c := &call{account: account, at: now}
				log.calls = append(log.calls, c)
				owed = append(owed, admission{c, d})
				admitted[account] = true
			} else {
				honest(t, log, account, limits, clock, d)
			}
		}
		limiter.send(ctx, batch)
		for _, p := range batch {
			require.NoError(t, p.err)
			switch Verdict(p.reply[0].(string)) {
			case Admitted, Refused:
				decided(p, limiter.decode(p.reply, p.principal.Limits, p.day))
			default:
				again = append(again, p)
			}
		}
		for _, p := range again {
			d, err := limiter.Admit(ctx, *p.principal)
			require.NoError(t, err)
			decided(p, d)
		}
		same(t, c, log, log.now(clock))
		for account := range admitted {
			length := c.LLen(ctx, counter.Window(account)).Val()
			require.EqualValues(t, log.figures(account, log.now(clock)).recent, length, "an admission drops entries older than a minute")
		}
	}
	everyKeyExpires(t, c)
}

// honest checks that a refused call is admitted after exactly the wait it was told, and not a microsecond before.
func honest(t *rapid.T, log *naive, account string, limits api.Limits, clock time.Time, d Decision) {
	wait := d.RetryAfter()
	require.Positive(t, wait)
	if limits.PerDay > 0 && log.capacity > 0 {
		require.True(t, log.admits(account, limits, clock.Add(wait)), "refused at %s, and again after waiting %s", clock, wait)
	}
	require.False(t, log.admits(account, limits, clock.Add(wait-time.Microsecond)), "told to wait too long: %s at %s", wait, clock)
}

// same compares every counter in Redis with the log, whether the call before was admitted or refused.
func same(t *rapid.T, c *redis.Client, log *naive, now time.Time) {
	want := map[string]string{}
	total := 0
	for _, account := range []string{"acc_a", "acc_b", "acc_c"} {
		if f := log.figures(account, now); f.today > 0 {
			want[account] = strconv.Itoa(f.today)
			total += f.today
		}
	}
	got := c.HGetAll(context.Background(), counter.Day(counter.DayOf(now))).Val()
	require.Equal(t, strconv.Itoa(total), got[counter.ServiceField])
	delete(got, counter.ServiceField)
	delete(got, counter.LatestField)
	for account, calls := range got {
		if calls == "0" {
			delete(got, account) // what a refund left
		}
	}
	require.Equal(t, want, got)
}

// everyKeyExpires also checks that no window expires before its newest entry has left it.
func everyKeyExpires(t *rapid.T, c *redis.Client) {
	ctx := context.Background()
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		ttl := c.PTTL(ctx, keys.Val()).Val()
		require.Positive(t, ttl, "key %s does not expire", keys.Val())
		if strings.HasPrefix(keys.Val(), counter.Window("")) {
			require.Greater(t, ttl, Span)
		}
	}
	require.NoError(t, keys.Err())
}

// The script counts days, the keys of the counters name them: both mean the same ones.
func TestDaysAndTheirNames(t *testing.T) {
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			c := client(t, url)
			var clock time.Time
			limiter := New(c, noop.Tracer{}, 1<<30, func(_ context.Context, day string) (api.DayUsage, error) {
				require.Equal(t, counter.DayOf(clock), day)
				return api.DayUsage{Day: day}, nil
			}, func() time.Time { return clock })
			for i, day := range []string{"1970-01-01", "1999-12-31", "2000-02-29", "2024-02-29", "2026-03-01", "2026-11-20", "2027-12-31", "2100-02-28", "2100-03-01", "2255-01-01"} {
				var err error
				clock, err = time.Parse(time.DateOnly, day)
				require.NoError(t, err)
				clock = clock.Add(24*time.Hour - time.Microsecond)
				account := fmt.Sprintf("acc_%d", i)
				require.NoError(t, c.HSet(ctx, counter.Epochs, account, 1).Err())
				d, err := limiter.Admit(ctx, api.Principal{Account: account, Epoch: 1, Limits: api.Limits{PerMinute: 1, PerDay: 1}})
				require.NoError(t, err)
				require.Equal(t, Admitted, d.Verdict)
				require.Equal(t, "1", c.HGet(ctx, counter.Day(day), account).Val(), day)
			}
		})
	}
}
