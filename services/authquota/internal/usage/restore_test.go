package usage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/dbtx/dbtxtest"
	"opportunity.internal/services/authquota/internal/usage"
)

const day = "2026-11-20"

// book is a fake ledger that calls between after each page.
type book struct {
	counts  []usage.Count
	moves   []usage.Move
	between func(page int) error
	reads   int
}

func (b *book) EachPage(_ context.Context, on string, size int, do func([]usage.Count) error) error {
	if b.reads++; on != day {
		return nil
	}
	page := 0
	for part := range slices.Chunk(b.counts, size) {
		if err := do(part); err != nil {
			return err
		}
		if page++; b.between != nil {
			if err := b.between(page); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *book) MovesOn(context.Context, string) ([]usage.Move, error) { return b.moves, nil }

// accounts returns the counts of n accounts and their sum.
func accounts(n int) []usage.Count {
	counts, all := make([]usage.Count, n, n+1), 0
	for i := range counts {
		counts[i] = usage.Count{Account: fmt.Sprintf("acc_%032d", i), Calls: i%100 + 1}
		all += counts[i].Calls
	}
	return append(counts, usage.Count{Account: counter.ServiceField, Calls: all})
}

// requireDay fails the test unless the day has exactly these counters and nothing else is left.
func requireDay(t *testing.T, c *redis.Client, counts []usage.Count) {
	t.Helper()
	want := map[string]string{}
	for _, count := range counts {
		want[count.Account] = strconv.Itoa(count.Calls)
	}
	require.Equal(t, want, c.HGetAll(t.Context(), counter.Day(day)).Val())
	require.Greater(t, c.TTL(t.Context(), counter.Day(day)).Val(), counter.DayTTL-time.Minute)
	require.Zero(t, c.Exists(t.Context(), counter.Restore(day), counter.Restorer(day)).Val())
}

// onServers runs a test on a Redis and on the embedded server.
func onServers(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).Client()) })
	t.Run("embedded", func(t *testing.T) {
		server, err := embedded.Start("127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(server.Close)
		options, err := redis.ParseURL(server.URL())
		require.NoError(t, err)
		c := redis.NewClient(options)
		t.Cleanup(func() { _ = c.Close() })
		test(t, c)
	})
}

func TestRestore(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		from := &book{counts: accounts(2500)}
		from.between = func(int) error {
			require.Zero(t, c.Exists(t.Context(), counter.Day(day)).Val(), "a part of the counters must not show")
			return nil
		}
		r := usage.NewRestorer(c, from)
		require.NoError(t, r.Restore(t.Context(), day))
		requireDay(t, c, from.counts)

		require.NoError(t, c.HIncrBy(t.Context(), counter.Day(day), counter.ServiceField, 1).Err())
		from.counts[2500].Calls++
		require.NoError(t, r.Restore(t.Context(), day), "existing counters are newer than the ledger")
		requireDay(t, c, from.counts)
		require.Equal(t, 1, from.reads)

		require.NoError(t, r.Restore(t.Context(), "2026-11-21"))
		require.Equal(t, map[string]string{counter.ServiceField: "0"}, c.HGetAll(t.Context(), counter.Day("2026-11-21")).Val())
	})
}

// A restore that something interrupts starts over with what the ledger has then. No page is missing at the end.
func TestInterruptedRestoreStartsOver(t *testing.T) {
	var c *redis.Client
	for name, interrupt := range map[string]func(t *testing.T) error{
		"Redis loses its data": func(t *testing.T) error { return c.FlushAll(t.Context()).Err() },
		"a replica without the last page takes over": func(t *testing.T) error {
			return c.HDel(t.Context(), counter.Restore(day), fmt.Sprintf("acc_%032d", 700)).Err()
		},
		"another process claims it and stops": func(t *testing.T) error {
			return c.Set(t.Context(), counter.Restorer(day), "other", time.Millisecond).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []int{2, 10} { // the last page has one counter
				c = redistest.Start(t).Client()
				from := &book{counts: accounts(4500)}
				from.between = func(page int) error {
					if from.reads > 1 || page != after {
						return nil
					}
					from.counts[0].Calls += 7 // the ledger moves on
					return interrupt(t)
				}
				require.NoError(t, usage.NewRestorer(c, from).Restore(t.Context(), day))
				require.Equal(t, 2, from.reads, "after page %d", after)
				requireDay(t, c, from.counts)
			}
		})
	}
}

// A page whose reply is lost is sent again.
func TestRestoreRepeatsPages(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		lost := &lostReplies{}
		c.AddHook(lost)
		from := &book{counts: accounts(2500)}
		require.NoError(t, usage.NewRestorer(c, from).Restore(t.Context(), day))
		require.Equal(t, 4, lost.n)
		requireDay(t, c, from.counts)
	})
}

// lostReplies is a hook that loses the reply to every other script.
type lostReplies struct{ scripts, n int }

func (*lostReplies) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*lostReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (l *lostReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" && err == nil {
			if l.scripts++; l.scripts%2 == 0 {
				l.n++
				cmd.SetErr(context.DeadlineExceeded)
				return context.DeadlineExceeded
			}
		}
		return err
	}
}

// Any number of processes may restore a day at the same time. One does; the others wait for it, and take over if it fails.
func TestOneProcessRestores(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		failed := errors.New("no database")
		first, second := &book{counts: accounts(2500)}, &book{counts: accounts(2500)}
		var other sync.WaitGroup
		first.between = func(page int) error {
			if page == 1 {
				other.Go(func() {
					if err := usage.NewRestorer(c, second).Restore(context.Background(), day); err != nil {
						t.Error(err)
					}
				})
				return nil
			}
			require.Zero(t, second.reads)
			return failed
		}
		require.ErrorIs(t, usage.NewRestorer(c, first).Restore(t.Context(), day), failed)
		other.Wait()
		requireDay(t, c, second.counts)

		require.NoError(t, c.Del(t.Context(), counter.Day(day)).Err())
		require.NoError(t, c.Set(t.Context(), counter.Restorer(day), "other", time.Hour).Err())
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.Equal(t, problem.ServiceUnavailable, problem.Of(usage.NewRestorer(c, first).Restore(ctx, day)).Code)
	})
}

// A gateway of an earlier version creates the day itself. Its counters stay.
func TestRestoreKeepsADayThatAppeared(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		from := &book{counts: accounts(10)}
		from.between = func(int) error { return c.HSet(t.Context(), counter.Day(day), counter.ServiceField, 3).Err() }
		require.NoError(t, usage.NewRestorer(c, from).Restore(t.Context(), day))
		require.Equal(t, map[string]string{counter.ServiceField: "3"}, c.HGetAll(t.Context(), counter.Day(day)).Val())
		require.Zero(t, c.Exists(t.Context(), counter.Restore(day), counter.Restorer(day)).Val())
	})
}

// Restored counters are those of usage.Moved.
func TestRestoreAppliesMoves(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		from := &book{
			counts: []usage.Count{
				{Account: "acc_a", Calls: 1}, {Account: "acc_b", Calls: 20}, {Account: counter.Moved("acc_c"), Calls: 1},
				{Account: "acc_c", Calls: 300}, {Account: "acc_d", Calls: 4000}, {Account: counter.ServiceField, Calls: 4021},
			},
			moves: []usage.Move{
				{Day: day, From: "acc_a", To: "acc_b"}, {Day: day, From: "acc_c", To: "acc_d"}, {Day: day, From: "acc_e", To: "acc_f"},
			},
		}
		require.NoError(t, usage.NewRestorer(c, from).Restore(t.Context(), day))
		want := map[string]int{}
		for _, count := range from.counts {
			want[count.Account] = count.Calls
		}
		var counts []usage.Count
		for account, calls := range usage.Moved(want, from.moves) {
			if calls > 0 {
				counts = append(counts, usage.Count{Account: account, Calls: calls})
			}
		}
		requireDay(t, c, counts)
	})
}

// BenchmarkRestore restores a day of 300,000 accounts from Postgres to Redis. The metric page-ms is the time of Redis for a page, and
// stall-ms that of its longest command. On a busy machine the latter includes the time of other processes.
func BenchmarkRestore(b *testing.B) {
	const n = 300_000
	db := dbtxtest.Open(b, dbtxtest.Schema.Postgres(b), time.Now)
	saved := usage.NewStore(db.DB)
	for part := range slices.Chunk(accounts(n), 10_000) {
		require.NoError(b, saved.SaveDay(b.Context(), day, part))
	}
	tel, err := telemetry.Start(b.Context(), "bench", telemetry.Config{LogOutput: io.Discard})
	require.NoError(b, err)
	server := redistest.Start(b)
	c, err := redisdb.Open(redisdb.Config{URL: server.URL}, tel)
	require.NoError(b, err)
	defer c.Close()
	require.NoError(b, c.ConfigSet(b.Context(), "slowlog-log-slower-than", "0").Err())
	var longest time.Duration
	r := usage.NewRestorer(c, saved)
	for b.Loop() {
		b.StopTimer()
		require.NoError(b, server.Client().FlushAll(b.Context()).Err())
		require.NoError(b, c.ConfigSet(b.Context(), "slowlog-max-len", "2000").Err())
		require.NoError(b, c.Do(b.Context(), "slowlog", "reset").Err())
		b.StartTimer()
		require.NoError(b, r.Restore(b.Context(), day))
		b.StopTimer()
		require.EqualValues(b, n+1, c.HLen(b.Context(), counter.Day(day)).Val())
		for _, command := range server.Client().SlowLogGet(b.Context(), -1).Val() {
			longest = max(longest, command.Duration)
		}
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/restore")
	b.ReportMetric(float64(longest.Microseconds())/1000, "stall-ms")
	stats := server.Client().Info(b.Context(), "commandstats").Val()
	_, perCall, _ := strings.Cut(stats[strings.Index(stats, "cmdstat_evalsha:"):], "usec_per_call=")
	micros, err := strconv.ParseFloat(perCall[:strings.Index(perCall, ",")], 64)
	require.NoError(b, err)
	b.ReportMetric(micros/1000, "page-ms")
}
