package keyusage_test

import (
	"context"
	"maps"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/testkit"
)

const day = "2026-11-20"

// meter is the counters on a Redis, with their ledger in a new SQLite database.
type meter struct {
	*keyusage.Counters
	*keyusage.Store

	t     *testing.T
	db    testkit.DB
	redis *redis.Client
}

func newMeter(t *testing.T, c *redis.Client) meter {
	db := testkit.OnSQLite(t)
	store := keyusage.NewStore(db.DB)
	return meter{keyusage.NewCounters(c, store), store, t, db, c}
}

// other returns the counters of another process, on the same Redis and ledger.
func (m meter) other() meter {
	o := m.redis.Options()
	c := redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, Username: o.Username, Password: o.Password})
	m.t.Cleanup(func() { _ = c.Close() })
	m.Counters, m.redis = keyusage.NewCounters(c, m.Store), c
	return m
}

// charge sets a counter as the gateway does.
func (m meter) charge(day, account string, calls any) {
	m.t.Helper()
	require.NoError(m.t, m.redis.HSet(m.t.Context(), counter.Day(day), account, calls).Err())
	require.NoError(m.t, m.redis.SAdd(m.t.Context(), counter.Changed(day), account).Err())
}

// saved returns the ledger's counts of a day.
func (m meter) saved(day string) map[string]int {
	m.t.Helper()
	counts := map[string]int{}
	require.NoError(m.t, m.EachPage(m.t.Context(), day, 100, func(page []keyusage.Count) error {
		for _, c := range page {
			counts[c.Account] = c.Calls
		}
		return nil
	}))
	return counts
}

// move creates two accounts and moves the usage of one to the other.
func (m meter) move(from, to string) {
	m.t.Helper()
	for _, id := range []string{from, to} {
		require.NoError(m.t, m.db.Exec("INSERT INTO accounts (id, tier, suspend_reason, created_at) VALUES (?, 'free', '', 0)", id).Error)
	}
	require.NoError(m.t, m.db.Change(m.t.Context(), func(tx *accountdb.Tx) error { return keyusage.MoveUsage(tx, from, to) }))
}

// onServers runs a test on a Redis and on the embedded server.
func onServers(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).Client()) })
	t.Run("embedded", func(t *testing.T) { test(t, newRedis(t)) })
}

// scriptHook calls functions around each run of a script by one client. If before returns an error,
// the script does not run.
type scriptHook struct {
	hash          string
	before, after func() error
}

// onScript adds a hook for a script in this directory.
func onScript(t *testing.T, c *redis.Client, name string) *scriptHook {
	t.Helper()
	source, err := os.ReadFile(name)
	require.NoError(t, err)
	script := redis.NewScript(string(source))
	require.NoError(t, script.Load(t.Context(), c).Err())
	h := &scriptHook{hash: script.Hash()}
	c.AddHook(h)
	return h
}

func (*scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" || cmd.Args()[1] != h.hash {
			return next(ctx, cmd)
		}
		if h.before != nil {
			if err := h.before(); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		err := next(ctx, cmd)
		if err == nil && h.after != nil {
			err = h.after()
		}
		return err
	}
}

func TestCopy(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m := newMeter(t, c)
		copied := func() {
			t.Helper()
			require.NoError(t, m.Copy(t.Context()))
		}
		copied()
		m.charge(day, "b", 2)
		m.charge(day, "a", 1)
		copied()
		require.Equal(t, map[string]int{"a": 1, "b": 2}, m.saved(day))
		require.NoError(t, m.db.Exec("UPDATE usage_days SET calls = 0 WHERE account_id = 'a'").Error)
		m.charge(day, "b", 3)
		require.NoError(t, m.db.Exec("ALTER TABLE usage_days RENAME TO elsewhere").Error)
		require.Error(t, m.Copy(t.Context()))
		require.NoError(t, m.db.Exec("ALTER TABLE elsewhere RENAME TO usage_days").Error)
		copied()
		require.Equal(t, map[string]int{"a": 0, "b": 3}, m.saved(day), "a failed write is repeated, an unchanged counter is not written")

		m.db.Clock.Set(time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC))
		m.charge(day, "b", 4)
		m.charge("2026-11-21", "b", 1)
		copied()
		require.Equal(t, []int{4, 1}, []int{m.saved(day)["b"], m.saved("2026-11-21")["b"]})
		m.db.Advance(time.Hour)
		require.Equal(t, time.Hour, m.Lag())
		m.charge(day, "b", 5)
		copied()
		require.Equal(t, 5, m.saved(day)["b"], "once more, then it is final")
		require.Zero(t, m.Lag())
		m.charge(day, "b", 6)
		m.charge("2026-11-21", "c", 0) // refunded
		copied()
		require.Equal(t, 5, m.saved(day)["b"])
		require.Equal(t, map[string]int{"b": 1}, m.saved("2026-11-21"))

		for _, wrong := range []string{"many", "-5", "1e300", "9223372036854775807", strings.Repeat("9", 40_000)} { // of another program
			m.charge("2026-11-21", "b", wrong)
			m.charge("2026-11-21", "c", 7)
			copied()
			require.Equal(t, map[string]int{"b": 1, "c": 7}, m.saved("2026-11-21"))
			used, err := m.Used(t.Context(), "b", time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))
			require.NoError(t, err)
			require.LessOrEqual(t, used, math.MaxInt32)
			require.GreaterOrEqual(t, used, 0)
		}
	})
}

func TestCopyWithoutRedis(t *testing.T) {
	server, err := embedded.Start("127.0.0.1:0")
	require.NoError(t, err)
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	options.DialerRetries, options.MaxRetries = 1, -1
	c := redis.NewClient(options)
	defer c.Close()
	server.Close()
	require.Equal(t, problem.ServiceUnavailable, problem.Of(newMeter(t, c).Copy(t.Context())).Code)
}

// A counter that changes while it is saved is saved again. A counter that Redis loses meanwhile is
// not.
func TestCountersThatChangeMeanwhileAreCopiedAgain(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m := newMeter(t, c)
		other, hook := m.other(), onScript(t, c, "copied.lua")
		m.charge(day, "a", 1)
		m.charge(day, "b", 1)
		hook.before = func() error { other.charge(day, "b", 2); hook.before = nil; return nil }
		require.NoError(t, m.Copy(t.Context()))
		require.Equal(t, map[string]int{"a": 1, "b": 1}, m.saved(day))
		require.NoError(t, m.Copy(t.Context()))
		require.Equal(t, map[string]int{"a": 1, "b": 2}, m.saved(day))
		require.Zero(t, c.Exists(t.Context(), counter.Changed(day)).Val())

		m.charge(day, "a", 5)
		require.NoError(t, c.Del(t.Context(), counter.Day(day)).Err())
		require.NoError(t, m.Copy(t.Context()))
		require.Equal(t, map[string]int{"a": 1, "b": 2}, m.saved(day))
		require.Zero(t, c.Exists(t.Context(), counter.Changed(day)).Val())
	})
}

// However many pages a copy has and wherever a move happens between them, each state of the ledger
// restores the sum of both accounts as of the merge or later, and none more than that.
func TestMergedUsageIsInTheLedgerOnce(t *testing.T) {
	const from, to = "acc_00000000000000000000000000000007", "acc_00000000000000000000000000000011"
	const pages = 4
	server := redistest.Start(t)
	for at := range pages {
		require.NoError(t, server.Client().FlushAll(t.Context()).Err())
		m := newMeter(t, server.Client())
		_, err := m.redis.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, count := range accounts(pages * 500) {
				p.HSet(t.Context(), counter.Day(day), count.Account, count.Calls)
				p.SAdd(t.Context(), counter.Changed(day), count.Account)
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, m.SaveDay(t.Context(), day, []keyusage.Count{{Account: from, Calls: 8}, {Account: to, Calls: 12}})) // an earlier copy
		m.charge(day, to, 30)
		m.move(from, to)
		saves, other := 0, m.other()
		onScript(t, m.redis, "copied.lua").before = func() error {
			saves++
			require.Contains(t, []int{8 + 12, 30, 8 + 30}, m.saved(day)[to], "after page %d, move at %d", saves, at)
			if saves == at+1 {
				require.NoError(t, other.DeliverMoves(t.Context(), ""))
			}
			return nil
		}
		for range 2 {
			require.NoError(t, m.Copy(t.Context()))
		}
		require.GreaterOrEqual(t, saves, pages)
		require.Equal(t, 38, m.saved(day)[to])
		require.Zero(t, m.redis.Exists(t.Context(), counter.Changed(day)).Val())
	}
}

func TestCountsAreInLockingOrder(t *testing.T) {
	require.Equal(t, []keyusage.Count{
		{Account: "*", Calls: 3}, {Account: "acc_a", Calls: 2}, {Account: "acc_c", Calls: 1},
	}, keyusage.Counts(maps.Clone(map[string]int{"acc_a": 2, "acc_b": 0, "*": 3, "acc_c": 1})))
	require.Empty(t, keyusage.Counts(nil))
}
