package admission

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

func ledger(usage api.DayUsage) func(context.Context, string) (api.DayUsage, error) {
	return func(context.Context, string) (api.DayUsage, error) { return usage, nil }
}

var someone = api.Principal{Account: "acc_a", Epoch: 3, Limits: api.Limits{PerMinute: 5, PerDay: 100}}

// on runs a test on both servers, with the epoch of someone in place.
func on(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			c := client(t, url)
			require.NoError(t, c.HSet(context.Background(), counter.Epochs, someone.Account, someone.Epoch).Err())
			test(t, c)
		})
	}
}

func TestOutdatedPrincipalsCostNothing(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		l := New(c, noop.Tracer{}, 10, ledger(api.DayUsage{}), nil)
		for _, p := range []api.Principal{{Account: "acc_a", Epoch: 2, Limits: someone.Limits}, {Account: "acc_unheard_of", Epoch: 3, Limits: someone.Limits}} {
			d, err := l.Admit(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, Decision{Verdict: Outdated}, d)
			current, err := l.Current(t.Context(), p)
			require.NoError(t, err)
			require.False(t, current)
		}
		require.Equal(t, []string{counter.Epochs}, c.Keys(t.Context(), "*").Val())
		current, err := l.Current(t.Context(), someone)
		require.NoError(t, err)
		require.True(t, current)
	})
}

// The counters of a day come from the ledger, once, and only where there are none.
func TestSeeding(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		accounts := map[string]int{"acc_a": 98}
		for i := range 5000 { // more than Lua unpacks at once
			accounts["acc_other_"+time.Duration(i).String()] = 1
		}
		asked := 0
		l := New(c, noop.Tracer{}, 10_000, func(context.Context, string) (api.DayUsage, error) {
			asked++
			return api.DayUsage{Service: 5098, Accounts: accounts}, nil
		}, nil)
		for _, today := range []int{99, 100} {
			d, err := l.Admit(t.Context(), someone)
			require.NoError(t, err)
			require.Equal(t, []any{Admitted, today}, []any{d.Verdict, d.Today})
		}
		d, err := l.Admit(t.Context(), someone)
		require.NoError(t, err)
		require.Equal(t, Refused, d.Verdict)
		require.True(t, d.DayFull)
		require.Equal(t, 1, asked)
		key := d.Day.key()
		require.EqualValues(t, len(accounts)+len([]string{counter.ServiceField, counter.LatestField}), c.HLen(t.Context(), key).Val())
		require.Equal(t, "5100", c.HGet(t.Context(), key, counter.ServiceField).Val())
		require.Greater(t, c.TTL(t.Context(), key).Val(), 71*time.Hour)
		require.NoError(t, l.seed(t.Context(), d.Day), "a late seed")
		require.Equal(t, "5100", c.HGet(t.Context(), key, counter.ServiceField).Val(), "changes nothing")
	})
}

// Callers that meet a day without counters wait for one look into the ledger.
func TestSeedingIsShared(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		var mu sync.Mutex
		asked := 0
		l := New(c, noop.Tracer{}, 100, func(context.Context, string) (api.DayUsage, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return api.DayUsage{}, nil
		}, nil)
		p := someone
		p.Limits.PerMinute = 100
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				d, err := l.Admit(context.Background(), p)
				if err != nil || d.Verdict != Admitted {
					t.Error(d, err)
				}
			})
		}
		all.Wait()
		require.Equal(t, "40", c.HGet(t.Context(), Day(l.day.Load()).key(), "acc_a").Val())
		require.Less(t, asked, 40)
	})
}

// A refund never makes a counter, and never takes one below zero.
func TestRefundBounds(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		l := New(c, noop.Tracer{}, 100, ledger(api.DayUsage{}), nil)
		d, err := l.Admit(t.Context(), someone)
		require.NoError(t, err)
		charged := d
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Zero(t, d.Today)
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d), "a mistake of ours")
		require.Equal(t, []any{"0", "0"}, c.HMGet(t.Context(), d.Day.key(), "acc_a", counter.ServiceField).Val())
		require.NoError(t, c.Del(t.Context(), d.Day.key()).Err())
		d = charged
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Equal(t, charged, d, "the figures stay as they were")
		require.Zero(t, c.Exists(t.Context(), d.Day.key()).Val())
	})
}

// A call of an account that was taken over since is given back to the one that has its calls now.
func TestRefundsFollowTheAccount(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		l := New(c, noop.Tracer{}, 100, ledger(api.DayUsage{}), nil)
		d, err := l.Admit(t.Context(), someone)
		require.NoError(t, err)
		day := d.Day.key()
		require.NoError(t, c.HDel(t.Context(), day, "acc_a").Err())
		require.NoError(t, c.HSet(t.Context(), day, "acc_b", 5, counter.Moved("acc_a"), 1).Err())
		require.NoError(t, c.HSet(t.Context(), counter.Merged, "acc_a", "acc_b").Err())
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Equal(t, 4, d.Today)
		require.Equal(t, []any{nil, "4", "0"}, c.HMGet(t.Context(), day, "acc_a", "acc_b", counter.ServiceField).Val())

		require.NoError(t, c.Del(t.Context(), counter.Merged).Err()) // lost with Redis; the day came back from the ledger
		require.NoError(t, l.Refund(t.Context(), "acc_a", &d))
		require.Equal(t, "4", c.HGet(t.Context(), day, "acc_b").Val(), "the charge stands")
	})
}

// A Redis that is away fails every call with 503, and all at once after a few; each is the same to the caller.
func TestUnreachable(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	l := New(c, noop.Tracer{}, 100, ledger(api.DayUsage{}), nil)
	for range 2 * tripAfter {
		_, err := l.Admit(t.Context(), someone)
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
		_, err = l.Current(t.Context(), someone)
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
	}
	require.Error(t, l.Refund(t.Context(), "acc_a", &Decision{}))
}

// A Redis that takes connections and never answers fails every call of a crowd within the budget of one command: whoever waits
// for a batch waits no longer than whoever is in one.
func TestSilence(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close() // never accepts: the system does, and says nothing
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	c, err := redisdb.Open(redisdb.Config{URL: "redis://" + ln.Addr().String()}, tel)
	require.NoError(t, err)
	defer c.Close()
	l := New(c, tel.Tracer, 100, ledger(api.DayUsage{}), nil)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if _, err := l.Admit(context.Background(), someone); problem.Of(err).Code != problem.ServiceUnavailable {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A Redis that stood still runs what it was sent, long after the callers were told that nobody could decide: it charges none of
// them.
func TestStandstill(t *testing.T) {
	server := storetest.Redis(t)
	c := server.Client()
	require.NoError(t, c.HSet(t.Context(), counter.Epochs, someone.Account, someone.Epoch).Err())
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	impatient, err := redisdb.Open(redisdb.Config{URL: server.URL}, tel)
	require.NoError(t, err)
	defer impatient.Close()
	l := New(impatient, tel.Tracer, 1000, ledger(api.DayUsage{}), nil)
	p := someone
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
	storetest.Eventually(t, "Redis comes to what it was sent", func() bool {
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

// info is a number of Redis' own account of itself.
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

// A limiter that misjudges the clock of Redis, which was set or is another one after a failover, finds that out by itself.
func TestMisjudgedClock(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		l := New(c, noop.Tracer{}, 100, ledger(api.DayUsage{}), nil)
		for calls, wrong := range []time.Duration{0, -time.Hour, time.Hour} {
			l.behind.Add(wrong.Microseconds())
			before := l.behind.Load()
			d, err := l.Admit(t.Context(), someone)
			require.NoError(t, err)
			require.Equal(t, []any{Admitted, calls + 1}, []any{d.Verdict, d.Today})
			require.NotEqual(t, before, l.behind.Load())
		}
	})
}

// A batch that comes after its time charges nothing, whatever it holds.
func TestLateBatch(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		l := New(c, noop.Tracer{}, 100, ledger(api.DayUsage{}), nil)
		d, err := l.Admit(t.Context(), someone)
		require.NoError(t, err)
		l.behind.Add(-time.Hour.Microseconds())
		outdated := someone
		outdated.Epoch++
		calls := []*pending{{principal: &someone}, {principal: &outdated}, {principal: &someone}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.send(ctx, calls)
		for _, p := range calls {
			require.NoError(t, p.err)
			require.Equal(t, string(late), p.reply[0])
		}
		require.Equal(t, "1", c.HGet(t.Context(), d.Day.key(), someone.Account).Val())
	})
}

// Calls that waited too long for their turn are not sent, and say nothing about Redis: the next one is served.
func TestExpiredBatch(t *testing.T) {
	on(t, func(t *testing.T, c *redis.Client) {
		l := New(c, noop.Tracer{}, 100, ledger(api.DayUsage{}), nil)
		for range 2 * tripAfter {
			p := &pending{principal: &someone, since: time.Now().Add(-redisdb.Budget)}
			l.batches.exec([]*pending{p})
			require.ErrorIs(t, p.err, errWaited)
		}
		d, err := l.Admit(t.Context(), someone)
		require.NoError(t, err)
		require.Equal(t, []any{Admitted, 1}, []any{d.Verdict, d.Today})
	})
}

// Every call of a crowd goes through exactly one batch, in at most so many batches at a time, none of which is too large; and
// a batch ends with the budget of its first call. Time stands still: no call waits too long.
func TestBatches(t *testing.T) { synctest.Test(t, crowdOfCalls) }

func crowdOfCalls(t *testing.T) {
	var mu sync.Mutex
	flying, most := 0, 0
	seen := map[*pending]int{}
	failure := errors.New("no")
	b := batcher{}
	b.send = func(ctx context.Context, calls []*pending) {
		mu.Lock()
		flying++
		most = max(most, flying)
		for _, p := range calls {
			seen[p]++
			p.err = failure
		}
		mu.Unlock()
		deadline, ok := ctx.Deadline()
		if !ok || !deadline.Equal(calls[0].since.Add(redisdb.Budget)) || len(calls) > batchSize {
			t.Error("a batch out of bounds")
		}
		mu.Lock()
		flying--
		mu.Unlock()
	}
	const callers, each = 300, 20
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				p := &pending{}
				b.do(p)
				if !errors.Is(p.err, failure) {
					t.Error("a call came back undone")
				}
			}
		})
	}
	all.Wait()
	require.Len(t, seen, callers*each)
	for _, times := range seen {
		require.Equal(t, 1, times)
	}
	require.LessOrEqual(t, most, batchesInFlight)
	synctest.Wait()
	require.Zero(t, b.inFlight)
	require.Empty(t, b.waiting)
}
