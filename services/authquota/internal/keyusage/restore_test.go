package keyusage_test

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
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/testkit"
)

// accounts returns the counts of n accounts and their sum.
func accounts(n int) []keyusage.Count {
	counts, all := make([]keyusage.Count, n, n+1), 0
	for i := range counts {
		counts[i] = keyusage.Count{Account: fmt.Sprintf("acc_%032d", i), Calls: i%100 + 1}
		all += counts[i].Calls
	}
	return append(counts, keyusage.Count{Account: counter.ServiceField, Calls: all})
}

// requireDay fails the test unless the day has exactly these counters and nothing else is left.
func requireDay(t *testing.T, c *redis.Client, counts []keyusage.Count) {
	t.Helper()
	want := map[string]string{}
	for _, count := range counts {
		want[count.Account] = strconv.Itoa(count.Calls)
	}
	require.Equal(t, want, c.HGetAll(t.Context(), counter.Day(day)).Val())
	require.Greater(t, c.TTL(t.Context(), counter.Day(day)).Val(), counter.DayTTL-time.Minute)
	require.Zero(t, c.Exists(t.Context(), counter.Restore(day), counter.Restorer(day)).Val())
}

func TestRestore(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m, counts := newMeter(t, c), accounts(2500)
		require.NoError(t, m.SaveDay(t.Context(), day, counts))
		onScript(t, c, "fill.lua").before = func() error {
			require.Zero(t, c.Exists(t.Context(), counter.Day(day)).Val(), "a part of the counters must not show")
			return nil
		}
		require.NoError(t, m.Restore(t.Context(), day))
		requireDay(t, c, counts)

		require.NoError(t, c.HIncrBy(t.Context(), counter.Day(day), counter.ServiceField, 1).Err())
		counts[2500].Calls++
		require.NoError(t, m.Restore(t.Context(), day), "existing counters are newer than the ledger")
		requireDay(t, c, counts)

		require.NoError(t, m.Restore(t.Context(), "2026-11-21"))
		require.Equal(t, map[string]string{counter.ServiceField: "0"}, c.HGetAll(t.Context(), counter.Day("2026-11-21")).Val())
	})
}

// A restore that something interrupts starts over with what the ledger has then. No page is missing
// at the end.
func TestInterruptedRestoreStartsOver(t *testing.T) {
	server := redistest.Start(t)
	for name, interrupt := range map[string]func(c *redis.Client) error{
		"Redis loses its data": func(c *redis.Client) error { return c.FlushAll(t.Context()).Err() },
		"a replica without the last page takes over": func(c *redis.Client) error {
			return c.HDel(t.Context(), counter.Restore(day), fmt.Sprintf("acc_%032d", 700)).Err()
		},
		"another process claims it and stops": func(c *redis.Client) error {
			return c.Set(t.Context(), counter.Restorer(day), "other", time.Millisecond).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []int{2, 10} { // the last page has one counter
				require.NoError(t, server.Client().FlushAll(t.Context()).Err())
				m, counts, pages := newMeter(t, server.Client()), accounts(4500), 0
				require.NoError(t, m.SaveDay(t.Context(), day, counts))
				onScript(t, m.redis, "fill.lua").after = func() error {
					if pages++; pages != after {
						return nil
					}
					counts[0].Calls += 7 // the ledger moves on
					return errors.Join(m.SaveDay(t.Context(), day, counts[:1]), interrupt(m.redis))
				}
				require.NoError(t, m.Restore(t.Context(), day))
				require.Greater(t, pages, after+9, "the second attempt has all pages")
				requireDay(t, m.redis, counts)
			}
		})
	}
}

// A page whose reply is lost is sent again.
func TestRestoreRepeatsPages(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m, lost := newMeter(t, c), &lostReplies{}
		c.AddHook(lost)
		require.NoError(t, m.SaveDay(t.Context(), day, accounts(2500)))
		require.NoError(t, m.Restore(t.Context(), day))
		require.Equal(t, 4, lost.n)
		requireDay(t, c, accounts(2500))
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

// Any number of processes may restore a day at the same time. One does; the others wait for it, and
// take over if it fails.
func TestOneProcessRestores(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		first, pages := newMeter(t, c), 0
		require.NoError(t, first.SaveDay(t.Context(), day, accounts(2500)))
		second, ctx, fail := first.other(), t.Context(), context.CancelFunc(nil)
		ctx, fail = context.WithCancel(ctx)
		defer fail()
		var other sync.WaitGroup
		onScript(t, c, "fill.lua").after = func() error {
			if pages++; pages == 1 {
				other.Go(func() {
					if err := second.Restore(context.Background(), day); err != nil {
						t.Error(err)
					}
				})
				return nil
			}
			fail()
			return nil
		}
		require.Error(t, first.Restore(ctx, day))
		other.Wait()
		requireDay(t, c, accounts(2500))

		require.NoError(t, c.Del(t.Context(), counter.Day(day)).Err())
		require.NoError(t, c.Set(t.Context(), counter.Restorer(day), "other", time.Hour).Err())
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.Equal(t, problem.ServiceUnavailable, problem.Of(second.Restore(short, day)).Code)
	})
}

// A gateway of an earlier version creates the day itself. Its counters stay.
func TestRestoreKeepsADayThatAppeared(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m := newMeter(t, c)
		require.NoError(t, m.SaveDay(t.Context(), day, accounts(10)))
		onScript(t, c, "fill.lua").after = func() error {
			return c.HSet(t.Context(), counter.Day(day), counter.ServiceField, 3).Err()
		}
		require.NoError(t, m.Restore(t.Context(), day))
		require.Equal(t, map[string]string{counter.ServiceField: "3"}, c.HGetAll(t.Context(), counter.Day(day)).Val())
		require.Zero(t, c.Exists(t.Context(), counter.Restore(day), counter.Restorer(day)).Val())
	})
}

// The ledger's counts of the other account include those of the merged account, which a later copy
// may have written again.
func TestRestoreLeavesOutMergedAccounts(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m := newMeter(t, c)
		require.NoError(t, m.SaveDay(t.Context(), day, []keyusage.Count{
			{Account: "acc_a", Calls: 1}, {Account: "acc_b", Calls: 20}, {Account: "acc_c", Calls: 300}, {Account: counter.ServiceField, Calls: 321},
		}))
		m.move("acc_a", "acc_b")
		m.move("acc_c", "acc_d")
		m.move("acc_e", "acc_f")
		require.NoError(t, m.SaveDay(t.Context(), day, []keyusage.Count{{Account: "acc_a", Calls: 2}}))
		for range 2 {
			require.NoError(t, m.Restore(t.Context(), day))
			requireDay(t, c, []keyusage.Count{{Account: "acc_b", Calls: 21}, {Account: "acc_d", Calls: 300}, {Account: counter.ServiceField, Calls: 321}})
			require.NoError(t, m.DeliverMoves(t.Context(), ""))
		}
	})
}

// BenchmarkRestore restores a day of 300,000 accounts from Postgres to Redis. The metric page-ms is
// the time of Redis for a page, and stall-ms that of its longest command. On a busy machine the
// latter includes the time of other processes.
func BenchmarkRestore(b *testing.B) {
	const n = 300_000
	db := testkit.Open(b, testkit.Schema.Postgres(b), time.Now)
	saved := keyusage.NewStore(db.DB)
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
	r := keyusage.NewCounters(c, saved)
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
