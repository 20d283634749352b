package admission

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
)

// emptyLedger returns a Restore for a ledger without calls.
func emptyLedger(c *redis.Client) func(context.Context, string) error {
	return ledger(c, map[string]any{counter.ServiceField: 0})
}

// ledger returns a Restore for these counters.
func ledger(c *redis.Client, counters map[string]any) func(context.Context, string) error {
	return func(ctx context.Context, day string) error {
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, counter.Day(day), counters)
			p.Expire(ctx, counter.Day(day), counter.DayTTL)
			return nil
		})
		return err
	}
}

// newLimiter returns a limiter on the clocks of Redis and of this process.
func newLimiter(c *redis.Client, capacity int, restore func(context.Context, string) error) *Limiter {
	return New(Config{Redis: c, Tracer: noop.Tracer{}, Log: slog.New(slog.DiscardHandler), Capacity: capacity,
		Restore: restore, Now: time.Now})
}

var principal = api.Principal{Account: "acc_a", Epoch: 3, Limits: api.Limits{PerMinute: 5, PerDay: 100}}

// onServers runs a test on both servers, with the epoch of principal set.
func onServers(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			c := client(t, url)
			require.NoError(t, c.HSet(context.Background(), counter.Epochs, principal.Account, principal.Epoch).Err())
			test(t, c)
		})
	}
}

func TestOutdatedPrincipalIsNotCharged(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		l := newLimiter(c, 10, emptyLedger(c))
		for _, p := range []api.Principal{{Account: "acc_a", Epoch: 2, Limits: principal.Limits}, {Account: "acc_unknown",
			Epoch: 3, Limits: principal.Limits}} {
			d, err := l.Admit(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, Decision{Verdict: Outdated}, d)
			current, err := l.Current(t.Context(), p)
			require.NoError(t, err)
			require.False(t, current)
		}
		require.Equal(t, []string{counter.Epochs}, c.Keys(t.Context(), "*").Val())
		current, err := l.Current(t.Context(), principal)
		require.NoError(t, err)
		require.True(t, current)
	})
}

// Missing counters of a day are restored once.
func TestMissingCountersAreRestored(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		var days []string
		fromLedger := ledger(c, map[string]any{counter.ServiceField: 5098, principal.Account: 98})
		l := newLimiter(c, 10_000, func(ctx context.Context, day string) error {
			days = append(days, day)
			return fromLedger(ctx, day)
		})
		for _, today := range []int{99, 100} {
			d := decide(t, l)
			require.Equal(t, []any{Admitted, today}, []any{d.Verdict, d.Today})
		}
		d := decide(t, l)
		require.Equal(t, Rejected, d.Verdict)
		require.True(t, d.DayFull)
		require.Equal(t, []string{d.Day.String()}, days)
		require.Equal(t, "5100", c.HGet(t.Context(), d.Day.key(), counter.ServiceField).Val())
	})
}

// Concurrent calls on a day without counters share one restore. During a long one they fail with
// 503 and do not end it.
func TestRestoreIsShared(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		restores, proceed, done := make(chan string, 100), make(chan struct{}), make(chan struct{})
		l := newLimiter(c, 100, func(ctx context.Context, day string) error {
			restores <- day
			<-proceed
			defer close(done)
			return errors.Join(ctx.Err(), emptyLedger(c)(ctx, day))
		})
		p := principal
		p.Limits.PerMinute = 100
		crowd := func(check func(Decision, error)) {
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() { check(l.Admit(context.Background(), p)) })
			}
			all.Wait()
		}
		for range 2 {
			crowd(func(_ Decision, err error) {
				if !errors.Is(err, errRestoring) || problem.Of(err).Code != problem.ServiceUnavailable {
					t.Errorf("err = %v, want %v", err, errRestoring)
				}
			})
		}
		close(proceed)
		<-done
		crowd(func(d Decision, err error) {
			if err != nil || d.Verdict != Admitted {
				t.Error(d, err)
			}
		})
		require.Equal(t, "40", c.HGet(t.Context(), Day(l.day.Load()).key(), "acc_a").Val())
		require.Len(t, restores, 1)
	})
}

// A refund never creates a counter and never makes one negative.
func TestRefundBounds(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		l := newLimiter(c, 100, emptyLedger(c))
		d := decide(t, l)
		charged := d
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Zero(t, d.Today)
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d), "second refund of one call")
		require.Equal(t, []any{"0", "0"}, c.HMGet(t.Context(), d.Day.key(), "acc_a", counter.ServiceField).Val())
		require.NoError(t, c.Del(t.Context(), d.Day.key()).Err())
		d = charged
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Equal(t, charged, d, "figures after a refund without counters")
		require.Zero(t, c.Exists(t.Context(), d.Day.key()).Val())
	})
}

// The refund of an account that was taken over goes to the other account.
func TestRefundFollowsMergedAccount(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		l := newLimiter(c, 100, emptyLedger(c))
		d := decide(t, l)
		day := d.Day.key()
		require.NoError(t, c.HDel(t.Context(), day, "acc_a").Err())
		require.NoError(t, c.HSet(t.Context(), day, "acc_b", 5).Err())
		require.NoError(t, c.HSet(t.Context(), counter.Merged, "acc_a", "acc_b").Err())
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Equal(t, 4, d.Today)
		require.Equal(t, []any{nil, "4", "0"}, c.HMGet(t.Context(), day, "acc_a", "acc_b", counter.ServiceField).Val())

		require.NoError(t, c.Del(t.Context(), counter.Merged).Err()) // lost with Redis; the day was loaded from the ledger
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Equal(t, "4", c.HGet(t.Context(), day, "acc_b").Val(), "the charge stands")
	})
}

// While Redis is unavailable, every call fails with 503. After tripAfter failures in a row it does
// so without a request to Redis, except for one probe each probeAfter.
func TestBreakerStopsRequests(t *testing.T) {
	for name, try := range map[string]func(ctx context.Context, l *Limiter) error{
		"admit": func(ctx context.Context, l *Limiter) error {
			_, err := l.Admit(ctx, principal)
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
			return err
		},
		"refund": func(ctx context.Context, l *Limiter) error { return l.Refund(ctx, principal.Account, &Decision{}) },
		"current": func(ctx context.Context, l *Limiter) error {
			current, err := l.Current(ctx, principal)
			require.False(t, current)
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				fail := func(context.Context, string, string) (net.Conn, error) {
					dials++
					return nil, syscall.ECONNREFUSED
				}
				c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, Dialer: fail})
				defer c.Close()
				l := newLimiter(c, 100, emptyLedger(c))
				for range 2 * tripAfter {
					require.Error(t, try(t.Context(), l))
				}
				require.Equal(t, tripAfter, dials)
				time.Sleep(probeAfter + 1)
				require.ErrorIs(t, try(t.Context(), l), syscall.ECONNREFUSED)
				for range tripAfter - 1 {
					require.ErrorIs(t, try(t.Context(), l), gobreaker.ErrOpenState)
				}
				require.Equal(t, tripAfter+1, dials)
			})
		})
	}
}

func TestUsedIsTheShareOfToday(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		l := newLimiter(c, 8, emptyLedger(c))
		require.Zero(t, l.Used())
		for range 2 {
			decide(t, l)
		}
		require.InDelta(t, 0.25, l.Used(), 0)
		l.cfg.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
		require.Zero(t, l.Used(), "on the next day")
	})
}

// The ledger copies only counters that are marked as changed. A rejected call changes none.
func TestChargedCountersAreMarkedForTheLedger(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		l := newLimiter(c, 1, emptyLedger(c))
		marked := func(want Verdict) []string {
			d := decide(t, l)
			require.Equal(t, want, d.Verdict)
			return c.SMembers(t.Context(), counter.Changed(d.Day.String())).Val()
		}
		require.ElementsMatch(t, []string{principal.Account, counter.ServiceField}, marked(Admitted))
		require.NoError(t, c.Del(t.Context(), counter.Changed(counter.DayOf(time.Now()))).Err())
		require.Empty(t, marked(Rejected))
	})
}

// A stalled Redis runs queued scripts after their callers got 503, and charges none of them.
func TestStalledRedisChargesNothingLate(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	require.NoError(t, c.HSet(t.Context(), counter.Epochs, principal.Account, principal.Epoch).Err())
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	impatient, err := redisdb.Open(redisdb.Config{URL: server.URL}, tel)
	require.NoError(t, err)
	defer impatient.Close()
	l := newLimiter(impatient, 1000, emptyLedger(c))
	p := principal
	p.Limits.PerMinute = 1000
	d, err := l.Admit(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, Admitted, d.Verdict)
	ran := info(t, c, "commandstats", "cmdstat_evalsha:calls=")

	process := info(t, c, "server", "process_id:")
	require.NoError(t, syscall.Kill(process, syscall.SIGSTOP))
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if _, err := l.Admit(context.Background(), p); problem.Of(err).Code != problem.ServiceUnavailable {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.NoError(t, syscall.Kill(process, syscall.SIGCONT))
	storetest.Eventually(t, "Redis runs the queued scripts", func() bool {
		return info(t, c, "commandstats", "cmdstat_evalsha:calls=") > ran
	})
	admitted := 1
	storetest.Eventually(t, "service resumes", func() bool {
		d, err := l.Admit(context.Background(), p)
		if err == nil && d.Verdict == Admitted {
			admitted++
		}
		return err == nil
	})
	require.Equal(t, strconv.Itoa(admitted), c.HGet(t.Context(), d.Day.key(), p.Account).Val())
}

// info returns a number from the INFO command.
func info(t *testing.T, c *redis.Client, section, name string) int {
	t.Helper()
	text, err := c.Info(context.Background(), section).Result()
	require.NoError(t, err)
	_, after, found := strings.Cut(text, name)
	require.True(t, found, text)
	n, err := strconv.Atoi(after[:strings.IndexFunc(after, func(r rune) bool { return r < '0' || r > '9' })])
	require.NoError(t, err)
	return n
}

// A batch after its deadline charges nothing.
func TestLateBatch(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		l := newLimiter(c, 100, emptyLedger(c))
		d := decide(t, l)
		l.clock.offset.Add(-time.Hour.Microseconds())
		outdated := principal
		outdated.Epoch++
		calls := []*call{{principal: &principal}, {principal: &outdated}, {principal: &principal}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.send(ctx, calls)
		for _, c := range calls {
			require.NoError(t, c.err)
			require.Equal(t, string(late), c.reply[0])
		}
		require.Equal(t, "1", c.HGet(t.Context(), d.Day.key(), principal.Account).Val())
	})
}

// Calls that expired in the queue are not sent and do not open the breaker.
func TestExpiredCallsDoNotOpenBreaker(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		l := newLimiter(c, 100, emptyLedger(c))
		for range 2 * tripAfter {
			c := &call{principal: &principal, since: time.Now().Add(-redisdb.Budget)}
			l.batches.exec([]*call{c})
			require.ErrorIs(t, c.err, errExpired)
		}
		d := decide(t, l)
		require.Equal(t, []any{Admitted, 1}, []any{d.Verdict, d.Today})
	})
}

// Every one of many concurrent calls is sent in exactly one batch, within maxInFlight and maxBatch,
// and with the deadline of its first call. Time does not advance in the bubble, so no call expires.
func TestConcurrentCallsShareBatches(t *testing.T) { synctest.Test(t, sendConcurrently) }

func sendConcurrently(t *testing.T) {
	var mu sync.Mutex
	inFlight, peak := 0, 0
	seen := map[*call]int{}
	failure := errors.New("failure")
	b := batcher{budget: redisdb.Budget}
	b.send = func(ctx context.Context, calls []*call) {
		mu.Lock()
		inFlight++
		peak = max(peak, inFlight)
		for _, c := range calls {
			seen[c]++
			c.err = failure
		}
		mu.Unlock()
		deadline, ok := ctx.Deadline()
		if !ok || !deadline.Equal(calls[0].since.Add(redisdb.Budget)) || len(calls) > maxBatch {
			t.Errorf("batch of %d calls with deadline %v", len(calls), deadline)
		}
		mu.Lock()
		inFlight--
		mu.Unlock()
	}
	const callers, each = 300, 20
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				c := &call{}
				b.do(c)
				if !errors.Is(c.err, failure) {
					t.Errorf("err = %v, want %v", c.err, failure)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, seen, callers*each)
	for _, times := range seen {
		require.Equal(t, 1, times)
	}
	require.LessOrEqual(t, peak, maxInFlight)
	synctest.Wait()
	require.Zero(t, b.inFlight)
	require.Empty(t, b.waiting)
}

func TestRejectionsNameTheLimitAndTheWait(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := Decision{Limits: api.Limits{PerMinute: 10, PerDay: 100}, Clock: noon, Day: Day(noon.Unix() / 86400)}
	d.Room = 22*time.Second + time.Millisecond
	minute, day, base, service := d, d, d, d
	minute.MinuteFull = true
	day.MinuteFull, day.DayFull = true, true
	base.MinuteFull, base.DayFull, base.BaseFull = true, true, true
	service.MinuteFull, service.DayFull, service.BaseFull, service.ServiceFull = true, true, true, true
	for want, d := range map[string]Decision{
		"Minute limit reached (10 requests in any 60 seconds). Retry in 23 seconds.":                       minute,
		"Daily limit reached (100 requests per UTC day; it resets at 00:00 UTC). Retry in 43200 seconds.":  day,
		"Daily capacity reached (shared by all accounts; it resets at 00:00 UTC). Retry in 43200 seconds.": service,
		"Daily capacity of the free tier reached (shared by all of its accounts; it resets at 00:00 UTC). " +
			"Retry in 43200 seconds.": base,
	} {
		require.Equal(t, want, d.Problem().Message)
		require.Equal(t, d.RetryAfter(), d.Problem().RetryAfter)
	}
}

// Times are rounded up to seconds, and the remaining quota is never negative.
func TestHeadersOfADecision(t *testing.T) {
	clock := time.Date(2026, 11, 20, 23, 59, 0, 1, time.UTC)
	day := Day(clock.Unix() / 86400)
	d := Decision{Limits: api.Limits{PerMinute: 10, PerDay: 100}, Clock: clock, Day: day, Today: 30, Recent: 4,
		Room: 22*time.Second + 1}
	used := d
	used.Today, used.Recent, used.Room = 101, 11, 22*time.Second
	for fields, d := range map[string]Decision{
		`70 "minute";r=6;t=23, "day";r=70;t=60`: d,
		`0 "minute";r=0;t=22, "day";r=0;t=60`:   used,
	} {
		h := http.Header{}
		d.SetHeaders(h)
		field := func(name string) string { return h[name][0] } // spelled as documented, not as net/http would
		require.Equal(t, fields, field("X-RateLimit-Remaining")+" "+field("RateLimit"))
		require.Equal(t, "100", field("X-RateLimit-Limit"))
		require.Equal(t, strconv.FormatInt(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).Unix(), 10),
			field("X-RateLimit-Reset"))
		require.Equal(t, `"minute";q=10;w=60, "day";q=100;w=86400`, field("RateLimit-Policy"))
	}
}
