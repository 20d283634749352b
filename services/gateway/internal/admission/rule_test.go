package admission

import (
	"cmp"
	"context"
	"log/slog"
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
	"opportunity.internal/pkg/storetest/redistest"
)

// servers returns the URLs of the two servers that the scripts must work on, by name.
func servers(t *testing.T) map[string]string {
	t.Helper()
	inProcess, err := embedded.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(inProcess.Close)
	return map[string]string{"redis": redistest.Start(t).URL, "embedded": inProcess.URL()}
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

// span is the length of the minute window.
const span = time.Minute

// naiveLog is a reference implementation independent of the script: it stores every admission and
// sums over all of them.
type naiveLog struct {
	capacity   int
	baseCap    int
	admissions []*admission
	latest     map[int64]time.Time // by day: the time of its latest admission
	day        int64               // the latest day in use
	future     time.Time           // the latest of the dropped latest admissions
}

type admission struct {
	account   string
	at        time.Time
	base      bool
	refunded  bool
	forgotten bool // see forget and admit
}

// now returns the time of a call at clock, and its day: the day's latest admission if clock is up
// to maxAhead earlier.
func (n *naiveLog) now(clock time.Time) (now time.Time, day int64) {
	for day = n.day; ; day = now.Unix() / 86400 {
		now = clock
		if latest := n.latest[day]; latest.After(clock) && latest.Sub(clock) <= maxAhead {
			now = latest
		}
		if now.Unix()/86400 == day {
			return now, day
		}
	}
}

// forget drops latest admissions that are more than maxAhead after clock. From then on until the
// clock has passed them, it also drops each account's admissions that are later than now.
func (n *naiveLog) forget(account string, clock time.Time) {
	for _, day := range []int64{n.day, clock.Unix() / 86400} {
		if latest := n.latest[day]; latest.Sub(clock) > maxAhead {
			delete(n.latest, day)
			if latest.After(n.future) {
				n.future = latest
			}
		}
	}
	now, _ := n.now(clock)
	for _, c := range n.admissions {
		if c.account == account && n.future.After(clock) && c.at.After(now) {
			c.forgotten = true
		}
	}
}

// admit adds an admission and forgets those that have left the window, which stay out if the clock
// steps back.
func (n *naiveLog) admit(account string, base bool, now time.Time, day int64) *admission {
	for _, c := range n.admissions {
		if c.account == account && now.Sub(c.at) >= span {
			c.forgotten = true
		}
	}
	a := &admission{account: account, base: base, at: now}
	n.admissions = append(n.admissions, a)
	n.latest[day] = now
	return a
}

type figures struct {
	service, base, today int
	window               []time.Time // admissions of the account in its minute, oldest first
}

func (n *naiveLog) figures(account string, now time.Time) (f figures) {
	for _, c := range n.admissions {
		sameDay := c.at.Format(time.DateOnly) == now.Format(time.DateOnly)
		if sameDay && !c.refunded {
			f.service++
			if c.base {
				f.base++
			}
			if c.account == account {
				f.today++
			}
		}
		if c.account == account && !c.forgotten && now.Sub(c.at) < span {
			f.window = append(f.window, c.at)
		}
	}
	return f
}

func (n *naiveLog) admits(p *api.Principal, clock time.Time) bool {
	now, _ := n.now(clock)
	f, limits := n.figures(p.Account, now), p.Limits
	if p.Tier == api.BaseTier && f.base >= n.baseCap {
		return false
	}
	return f.service < n.capacity && f.today < limits.PerDay && len(f.window) < limits.PerMinute
}

// decision returns the decision on a call: all limits are checked before anything is charged. It is
// rejected while the limit-th newest admission is younger than span, so no interval of that length
// has more admissions than the limit.
func (n *naiveLog) decision(p *api.Principal, clock time.Time) Decision {
	now, day := n.now(clock)
	f, limits, base := n.figures(p.Account, now), p.Limits, p.Tier == api.BaseTier
	d := Decision{
		Verdict: Rejected, Limits: limits, Base: base, Clock: clock, Day: Day(day), Today: f.today, Recent: len(f.window),
		ServiceFull: f.service >= n.capacity, BaseFull: base && f.base >= n.baseCap, DayFull: f.today >= limits.PerDay,
		MinuteFull: len(f.window) >= limits.PerMinute,
	}
	first := now // Room ends when this admission leaves the window
	if d.MinuteFull {
		first = f.window[len(f.window)-limits.PerMinute]
	} else if len(f.window) > 0 {
		first = f.window[0]
	}
	d.Room = first.Add(span).Sub(clock)
	if n.admits(p, clock) {
		d.Verdict, d.Today, d.Recent = Admitted, d.Today+1, d.Recent+1
	}
	return d
}

// TestScriptAgainstNaiveLog compares the script, on both servers, with the naive log.
// Calls arrive at random on a clock that may pause, cross midnight and be set back.
func TestScriptAgainstNaiveLog(t *testing.T) {
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			c := client(t, url)
			rapid.Check(t, func(rt *rapid.T) { compare(rt, c) })
		})
	}
}

func compare(t *rapid.T, client *redis.Client) {
	ctx := context.Background()
	require.NoError(t, client.FlushAll(ctx).Err())
	clock := time.Date(2026, 11, 20, 23, 57, rapid.IntRange(0, 59).Draw(t, "second"),
		rapid.IntRange(0, 999_999).Draw(t, "µs")*1000, time.UTC)
	log := &naiveLog{latest: map[int64]time.Time{}, capacity: rapid.IntRange(1, 25).Draw(t, "capacity")}
	log.baseCap = rapid.IntRange(1, log.capacity).Draw(t, "capacity of the base tier")
	read := func() time.Time { return clock } // one clock, so that no step is corrected; TestClockSteps covers that
	limiter := New(Config{
		Redis: client, Tracer: noop.Tracer{}, Log: slog.New(slog.DiscardHandler), Capacity: log.capacity,
		BaseCap: log.baseCap, Restore: emptyLedger(client), Now: read, RedisNow: read,
	})
	log.day = limiter.day.Load()
	accounts := []string{"acc_a", "acc_b", "acc_c"}
	for _, account := range accounts {
		require.NoError(t, client.HSet(ctx, counter.Epochs, account, 7).Err())
	}
	require.NoError(t, client.Expire(ctx, counter.Epochs, time.Hour).Err())

	type charge struct {
		*admission
		decision Decision
	}
	var refundable []charge
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		clock = clock.Add(time.Duration(rapid.OneOf(
			rapid.Just(int64(0)), rapid.Int64Range(0, 3_000_000), rapid.Int64Range(0, 59_000_000),
			rapid.Int64Range(-2_000_000, 0),
			rapid.Just(int64(span/time.Microsecond)), rapid.Int64Range(0, 400_000_000), rapid.Just(-maxAhead.Microseconds()),
			rapid.Int64Range(-400_000_000, 0),
		).Draw(t, "elapsed")) * time.Microsecond)
		if len(refundable) > 0 && rapid.IntRange(0, 3).Draw(t, "refund") == 0 {
			i := rapid.IntRange(0, len(refundable)-1).Draw(t, "which")
			c := refundable[i]
			refundable = slices.Delete(refundable, i, i+1)
			require.NoError(t, limiter.Refund(ctx, c.account, &c.decision))
			c.refunded = true
			require.Equal(t, log.figures(c.account, c.at).today, c.decision.Today, "calls after a refund")
			continue
		}
		// The script decides the calls of a batch in order.
		batch := make([]*call, rapid.IntRange(1, 4).Draw(t, "batch"))
		for i := range batch {
			limits := api.Limits{PerMinute: rapid.IntRange(1, 6).Draw(t, "minute"), PerDay: rapid.IntRange(1, 12).Draw(t, "day")}
			batch[i] = &call{principal: &api.Principal{Account: rapid.SampledFrom(accounts).Draw(t, "account"), Epoch: 7,
				Limits: limits}}
			batch[i].principal.Tier = rapid.SampledFrom([]api.Tier{api.BaseTier, api.Developer}).Draw(t, "tier")
		}
		// Calls with the wrong day or without counters are retried one by one.
		var retries []*call
		admitted := map[string]bool{}
		check := func(c *call, d Decision) {
			account := c.principal.Account
			log.forget(account, clock)
			want := log.decision(c.principal, clock)
			require.Equal(t, want.Clock.UnixMicro(), d.Clock.UnixMicro())
			want.Clock = d.Clock
			require.Equal(t, want, d, "at %s", clock)
			now, day := log.now(clock)
			if log.day = day; want.Verdict == Admitted {
				refundable = append(refundable, charge{log.admit(account, want.Base, now, day), d})
				admitted[account] = true
			} else {
				checkRetryAfter(t, log, c.principal, clock, d)
			}
		}
		limiter.send(ctx, batch)
		for _, c := range batch {
			require.NoError(t, c.err)
			switch Verdict(c.reply[0].(string)) {
			case Admitted, Rejected:
				check(c, limiter.decode(c.reply, c.principal, c.day))
			default:
				retries = append(retries, c)
			}
		}
		for _, c := range retries {
			d, err := limiter.Admit(ctx, *c.principal)
			require.NoError(t, err)
			check(c, d)
		}
		now, _ := log.now(clock)
		checkCounters(t, client, log, now)
		for account := range admitted {
			length := client.LLen(ctx, counter.Window(account)).Val()
			require.EqualValues(t, len(log.figures(account, now).window), length, "window of %s after an admission", account)
		}
	}
	checkExpiry(t, client)
}

// checkRetryAfter checks that the wait of a rejected call is exact to the microsecond. It may be
// too short if a clock that ran ahead charged calls to the next day.
func checkRetryAfter(t *rapid.T, log *naiveLog, p *api.Principal, clock time.Time, d Decision) {
	wait := d.RetryAfter()
	require.Positive(t, wait)
	if !log.future.After(clock) {
		require.True(t, log.admits(p, clock.Add(wait)), "rejected at %s, and again after Retry-After %s", clock, wait)
	}
	require.False(t, log.admits(p, clock.Add(wait-time.Microsecond)), "Retry-After too long: %s at %s", wait, clock)
}

// checkCounters compares every counter in Redis with the log.
func checkCounters(t *rapid.T, c *redis.Client, log *naiveLog, now time.Time) {
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
	base, _ := strconv.Atoi(cmp.Or(got[counter.BaseField], "0"))
	require.Equal(t, log.figures("", now).base, base)
	delete(got, counter.BaseField)
	for account, calls := range got {
		if calls == "0" {
			delete(got, account) // left by a refund
		}
	}
	require.Equal(t, want, got)
}

// checkExpiry checks that every key expires, and no window before its newest entry is a minute old.
func checkExpiry(t *rapid.T, c *redis.Client) {
	ctx := context.Background()
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		ttl := c.PTTL(ctx, keys.Val()).Val()
		require.Positive(t, ttl, "key %s does not expire", keys.Val())
		if strings.HasPrefix(keys.Val(), counter.Window("")) {
			require.Greater(t, ttl, span)
		}
	}
	require.NoError(t, keys.Err())
}
