package keyusage_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/storetest"
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

	t     testing.TB
	db    testkit.DB
	redis *redis.Client
}

func newMeter(t testing.TB, c *redis.Client) meter {
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
	require.NoError(m.t, m.EachPage(m.t.Context(), day, 100, func(page []any) error {
		for pair := range slices.Chunk(page, 2) {
			counts[pair[0].(string)] = pair[1].(int)
		}
		return nil
	}))
	return counts
}

// move creates two accounts and moves the usage of one to the other.
func (m meter) move(from, to string) {
	m.t.Helper()
	for _, id := range []string{from, to} {
		require.NoError(m.t, m.db.Exec(
			"INSERT INTO accounts (id, tier, suspend_reason, created_at) VALUES (?, 'free', '', 0) ON CONFLICT DO NOTHING",
			id).Error)
	}
	require.NoError(m.t, m.db.Change(m.t.Context(),
		func(tx *accountdb.Tx) error { return keyusage.MoveUsage(tx, from, to) }))
}

// onServers runs a test on a Redis and on the embedded server.
func onServers(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).Client()) })
	t.Run("embedded", func(t *testing.T) { test(t, redistest.Embedded(t)) })
}

// hook calls functions around commands of one client. If before returns an error, the commands are
// not sent.
type hook struct{ before, after func() error }

// onCommand adds a hook for a command, alone or in a pipeline.
func onCommand(c *redis.Client, name string, h *hook) { c.AddHook(commandHook{name, h}) }

type commandHook struct {
	name string
	*hook
}

func (commandHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h commandHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		return h.around(all[0], func() error { return next(ctx, all) })
	}
}

func (h commandHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.around(cmd, func() error { return next(ctx, cmd) })
	}
}

func (h commandHook) around(cmd redis.Cmder, send func() error) error {
	if cmd.Name() != h.name {
		return send()
	}
	for _, step := range []func() error{h.before, send, h.after} {
		if step != nil {
			if err := step(); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
	}
	return nil
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
		require.Equal(t, map[string]int{"a": 0, "b": 3}, m.saved(day),
			"a failed write is repeated, an unchanged counter is not written")

		m.db.Clock.Set(time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC))
		m.charge(day, "b", 4)
		m.charge("2026-11-21", "b", 1)
		copied()
		require.Equal(t, []int{4, 1}, []int{m.saved(day)["b"], m.saved("2026-11-21")["b"]})
		m.db.Advance(time.Hour)
		require.Equal(t, time.Hour, m.Lag())
		m.charge(day, "b", 5)
		m.charge("2026-11-21", "c", 0) // refunded
		copied()
		require.Equal(t, 5, m.saved(day)["b"])
		require.Zero(t, m.Lag())
		require.Equal(t, map[string]int{"b": 1}, m.saved("2026-11-21"))

		// of another program
		for _, wrong := range []string{"many", "-5", "1e300", "9223372036854775807", strings.Repeat("9", 40_000)} {
			m.charge("2026-11-21", "b", wrong)
			m.charge("2026-11-21", "c", 7)
			copied()
			require.Equal(t, map[string]int{"b": 1, "c": 7}, m.saved("2026-11-21"))
			used := storetest.Must(m.Used(t.Context(), "b", time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)))(t)
			require.LessOrEqual(t, used, math.MaxInt32)
			require.GreaterOrEqual(t, used, 0)
		}
	})
}

func TestOutageOfRedis(t *testing.T) {
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	options := storetest.Must(redis.ParseURL(server.URL()))(t)
	options.DialerRetries, options.MaxRetries = 1, -1
	c := redis.NewClient(options)
	defer c.Close()
	server.Close()
	m := newMeter(t, c)
	require.Equal(t, problem.ServiceUnavailable, problem.Of(m.Copy(t.Context())).Code)
	require.Equal(t, problem.ServiceUnavailable, problem.Of(m.Restore(t.Context(), day)).Code)
}

// A counter that changes while it is saved is saved again. A counter that Redis loses meanwhile is
// not.
func TestCountersThatChangeMeanwhileAreCopiedAgain(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m := newMeter(t, c)
		other, hook := m.other(), new(hook)
		onCommand(c, "evalsha", hook)
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

// accounts returns the counts of n accounts and their sum.
func accounts(n int) map[string]int {
	counts := map[string]int{counter.ServiceField: 0}
	for i := range n {
		counts[fmt.Sprintf("acc_%032d", i)] = i%100 + 1
		counts[counter.ServiceField] += i%100 + 1
	}
	return counts
}

// requireDay fails the test unless the day has exactly these counters and nothing else is left.
func requireDay(t *testing.T, c *redis.Client, counts map[string]int) {
	t.Helper()
	want := map[string]string{}
	for account, calls := range counts {
		want[account] = strconv.Itoa(calls)
	}
	require.Equal(t, want, c.HGetAll(t.Context(), counter.Day(day)).Val())
	require.Greater(t, c.TTL(t.Context(), counter.Day(day)).Val(), counter.DayTTL-time.Minute)
	require.Empty(t, c.Keys(t.Context(), counter.Restore(day, "*")).Val())
}

// Several processes restore at the same time. No request is admitted on a part of the counters.
func TestRestore(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m, counts := newMeter(t, c), accounts(2500)
		require.NoError(t, m.SaveDay(t.Context(), day, counts))
		var processes sync.WaitGroup
		for _, process := range []meter{m.other(), m.other(), m.other()} {
			processes.Go(func() {
				if err := process.Restore(context.Background(), day); err != nil {
					t.Error(err)
				}
			})
		}
		for n := int64(0); n < 2501; {
			n = c.HLen(t.Context(), counter.Day(day)).Val()
			require.Contains(t, []int64{0, 2501}, n)
		}
		processes.Wait()
		requireDay(t, c, counts)

		require.NoError(t, c.HIncrBy(t.Context(), counter.Day(day), counter.ServiceField, 1).Err())
		counts[counter.ServiceField]++
		require.NoError(t, m.Restore(t.Context(), day), "existing counters are newer than the ledger")
		requireDay(t, c, counts)

		disconnected, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, m.Restore(disconnected, "2026-11-21"), "others may wait for it")
		require.Equal(t, map[string]string{counter.ServiceField: "0"},
			c.HGetAll(t.Context(), counter.Day("2026-11-21")).Val())
	})
}

// A restore that something interrupts starts over with what the ledger has then. No page is missing
// at the end.
func TestInterruptedRestoreStartsOver(t *testing.T) {
	server := redistest.Start(t)
	for name, interrupt := range map[string]func(c *redis.Client) error{
		"Redis loses its data": func(c *redis.Client) error { return c.FlushAll(t.Context()).Err() },
		"a replica without the last page takes over": func(c *redis.Client) error {
			return c.HDel(t.Context(), c.Keys(t.Context(), counter.Restore(day, "*")).Val()[0], fmt.Sprintf("acc_%032d", 700)).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []int{2, 10} { // the last page has one counter
				require.NoError(t, server.Client().FlushAll(t.Context()).Err())
				m, counts, pages := newMeter(t, server.Client()), accounts(4500), 0
				require.NoError(t, m.SaveDay(t.Context(), day, counts))
				onCommand(m.redis, "hset", &hook{after: func() error {
					if pages++; pages != after {
						return nil
					}
					counts[counter.ServiceField] += 7 // the ledger moves on
					return errors.Join(m.SaveDay(t.Context(), day, counts), interrupt(server.Client()))
				}})
				require.NoError(t, m.Restore(t.Context(), day))
				require.Equal(t, 20, pages, "the second attempt has all pages")
				requireDay(t, m.redis, counts)
			}
		})
	}
}

// The ledger's counts of the other account include those of the merged account, which a later copy
// may have written again.
func TestRestoreLeavesOutMergedAccounts(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m := newMeter(t, c)
		require.NoError(t, m.SaveDay(t.Context(), day, map[string]int{
			"acc_a": 1, "acc_b": 20, "acc_c": 300, counter.ServiceField: 321,
		}))
		m.move("acc_a", "acc_b")
		m.move("acc_c", "acc_d")
		m.move("acc_e", "acc_f")
		require.NoError(t, m.SaveDay(t.Context(), day, map[string]int{"acc_a": 2}))
		for range 2 {
			require.NoError(t, m.Restore(t.Context(), day))
			requireDay(t, c, map[string]int{"acc_b": 21, "acc_d": 300, counter.ServiceField: 321})
			require.NoError(t, m.DeliverMoves(t.Context(), ""))
		}
	})
}

// The last minute moves too: connecting keys does not free capacity.
func TestTheLastMinuteOfAMergedAccountCountsForTheOther(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		m, ctx := newMeter(t, c), t.Context()
		now := storetest.Must(c.Time(ctx).Result())(t)
		window := func(account string, life time.Duration, ago ...time.Duration) {
			for _, d := range ago { // newest first
				require.NoError(t, c.RPush(ctx, counter.Window(account), now.Add(-d).UnixMicro()).Err())
			}
			require.NoError(t, c.PExpire(ctx, counter.Window(account), life).Err())
		}
		window("acc_b", time.Hour, 5*time.Second, 20*time.Second, 2*time.Minute)
		window("acc_a", 2*time.Hour, 0, 10*time.Second, 20*time.Second, time.Hour)
		for _, from := range []string{"acc_a", "acc_c"} { // the second has none
			m.move(from, "acc_b")
			require.NoError(t, m.DeliverMoves(ctx, ""))
			require.Equal(t, 5, storetest.Must(m.Recent(ctx, "acc_b"))(t), "of the last 60 seconds")
			merged := c.LRange(ctx, counter.Window("acc_b"), 0, -1).Val()
			require.Len(t, merged, 7)
			require.True(t, slices.IsSortedFunc(merged, func(a, b string) int { return strings.Compare(b, a) }), "newest first")
			require.Greater(t, c.PTTL(ctx, counter.Window("acc_b")).Val(), 119*time.Minute, "the longer life")
			require.Zero(t, c.Exists(ctx, counter.Window(from)).Val())
		}
	})
}

// However requests, connections, copies and interrupted copies interleave, each request counts
// once, for the final holder of the key. Losses of Redis and failovers may lose requests, and never
// count one twice.
func TestMergedUsageIsTheSumExactlyOnce(t *testing.T) {
	counters, copied := newMeter(t, redistest.Embedded(t)), new(hook)
	onCommand(counters.redis, "evalsha", copied)
	rapid.Check(t, func(t *rapid.T) {
		counters.db.Advance(24 * time.Hour) // each run has its own day
		newModel(t, counters, copied).run()
	})
}

var digests int

// model compares the counters with the requests that were made.
type model struct {
	*rapid.T
	meter

	ctx    context.Context
	copied *hook

	day      string
	person   string // takes over the keys of the others
	accounts []string
	holder   map[string]string // by account: the account that its requests count for
	charged  map[string]string // by account: the account that gateways charge
	calls    map[string]int    // by account
	faults   int
}

func newModel(t *rapid.T, counters meter, copied *hook) *model {
	m := &model{
		T: t, meter: counters, ctx: counters.t.Context(), copied: copied, day: counter.DayOf(counters.db.Now()),
		holder: map[string]string{}, charged: map[string]string{}, calls: map[string]int{},
	}
	for range rapid.IntRange(2, 5).Draw(t, "accounts") {
		digests++
		a := issue(t, m.db, digests, "").Account
		m.accounts, m.holder[a], m.charged[a] = append(m.accounts, a), a, a
	}
	m.person = m.accounts[0]
	return m
}

func (m *model) run() {
	acts := map[string]func(){
		"call": m.call, "connect": m.connect, "deliver": m.deliver, "copy": m.copyAll, "interrupt": m.interruptedCopy,
		"lose": m.lose, "restore": m.restore, "fail-over": m.failOver,
	}
	names := strings.Fields("call call call connect deliver copy interrupt lose restore fail-over")
	for range rapid.IntRange(1, 20).Draw(m.T, "acts") {
		acts[rapid.SampledFrom(names).Draw(m.T, "act")]()
	}
	m.restore()
	m.deliver()
	m.copyAll()
	m.check()
}

// call makes requests of an account, as the gateway charges them.
func (m *model) call() {
	a, n := rapid.SampledFrom(m.accounts).Draw(m.T, "by"), rapid.IntRange(1, 9).Draw(m.T, "calls")
	m.restore()
	key := counter.Day(m.day)
	require.NoError(m, m.redis.HIncrBy(m.ctx, key, m.charged[a], int64(n)).Err())
	require.NoError(m, m.redis.HIncrBy(m.ctx, key, counter.ServiceField, int64(n)).Err())
	require.NoError(m, m.redis.SAdd(m.ctx, counter.Changed(m.day), m.charged[a], counter.ServiceField).Err())
	m.calls[a] += n
}

// connect moves an account's keys. Until the move is delivered, or Redis loses the epochs, gateways
// charge the old account.
func (m *model) connect() {
	a := rapid.SampledFrom(m.accounts).Draw(m.T, "which")
	if m.holder[a] == m.person {
		return
	}
	require.NoError(m, m.db.Change(m.ctx, func(tx *accountdb.Tx) error { return keyusage.MoveUsage(tx, a, m.person) }))
	m.holder[a] = m.person
	if m.redis.Exists(m.ctx, counter.Day(m.day)).Val() == 0 {
		m.charged[a] = m.person
	}
}

func (m *model) deliver() {
	require.NoError(m, m.DeliverMoves(m.ctx, ""))
	maps.Copy(m.charged, m.holder)
}

// failOver delivers the moves, and then replaces the counters by those of a replica that lagged: it
// lacks the moves.
func (m *model) failOver() {
	takeOver := m.replicate()
	m.deliver()
	if rapid.Bool().Draw(m.T, "copied before") {
		m.copyAll()
	}
	takeOver()
	m.faults++
}

func (m *model) copyAll() { require.NoError(m, m.Copy(m.ctx)) }

func (m *model) interruptedCopy() {
	m.copied.before = func() error { return errors.New("stopped") } // after the counts were saved
	_ = m.Copy(m.ctx)
	m.copied.before = nil
}

// lose empties Redis. The requests since the last copy are forgotten.
func (m *model) lose() {
	require.NoError(m, m.redis.FlushAll(m.ctx).Err())
	maps.Copy(m.charged, m.holder)
	m.faults++
}

func (m *model) restore() { require.NoError(m, m.Restore(m.ctx, m.day)) }

func (m *model) check() {
	want, all, counted := map[string]int{}, 0, 0
	for a, n := range m.calls {
		want[m.holder[a]] += n
		all += n
	}
	for _, a := range m.accounts {
		saved := storetest.Must(m.UsedOn(m.ctx, a, m.db.Now()))(m)
		n, _ := m.redis.HGet(m.ctx, counter.Day(m.day), a).Int()
		counted += n
		if m.holder[a] == a {
			require.LessOrEqual(m, n, want[a], "%s in Redis", a)
			require.LessOrEqual(m, saved, want[a], "%s in the ledger", a)
		}
		if m.faults == 0 {
			require.Equal(m, want[a], n, "%s in Redis", a)
		}
		if m.faults == 0 && m.holder[a] == a {
			require.Equal(m, want[a], saved, "%s in the ledger", a)
		}
	}
	service, _ := m.redis.HGet(m.ctx, counter.Day(m.day), counter.ServiceField).Int()
	require.LessOrEqual(m, max(counted, service), all)
	if m.faults == 0 {
		require.Equal(m, all, service)
	}
}

// replicate returns a function that replaces the data of Redis by the counters that it has now.
func (m *model) replicate() (takeOver func()) {
	hashes := map[string]map[string]string{}
	for _, key := range []string{counter.Day(m.day), counter.Epochs, counter.Merged} {
		hashes[key] = m.redis.HGetAll(m.ctx, key).Val()
	}
	changed := m.redis.SMembers(m.ctx, counter.Changed(m.day)).Val()
	return func() {
		require.NoError(m, m.redis.FlushAll(m.ctx).Err())
		for key, fields := range hashes {
			if len(fields) > 0 {
				require.NoError(m, m.redis.HSet(m.ctx, key, fields).Err())
			}
		}
		for _, field := range changed {
			require.NoError(m, m.redis.SAdd(m.ctx, counter.Changed(m.day), field).Err())
		}
	}
}

// A value that another program has stored in Redis, in any place that authquota reads back, is
// never taken for more than a count can be, and never disables the counters.
func FuzzStoredValues(f *testing.F) {
	for _, text := range []string{"", "abc", "-1", "1e300", "2147483647", "2147483648", "9999999999999999",
		"99999999999999999999"} {
		f.Add(text)
	}
	const from, to = "acc_00000000000000000000000000000007", "acc_00000000000000000000000000000011"
	client := redistest.Start(f).Client()
	m := newMeter(f, client)
	m.move(from, to)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		ctx, m := t.Context(), m
		m.t = t
		most := math.MaxInt32
		if _, err := strconv.ParseUint(text, 10, 31); err != nil {
			most = 5 + 7 // it is no count
		}
		places := map[string]func(){
			"changed": func() { client.SAdd(ctx, counter.Changed(day), text) },
			"merged":  func() { client.HSet(ctx, counter.Merged, from, text) },
			"epoch":   func() { client.HSet(ctx, counter.Epochs, from, text) },
		}
		for _, account := range []string{from, to} {
			places["count of "+account] = func() { client.HSet(ctx, counter.Day(day), account, text) }
			places["window of "+account] = func() { client.LPush(ctx, counter.Window(account), text, text) }
		}
		for _, key := range []string{counter.Day(day), counter.Changed(day), counter.Window(to), counter.Epochs,
			counter.Merged} {
			places["key "+key] = func() { client.Set(ctx, key, text, 0) }
		}
		for place, plant := range places {
			require.NoError(t, client.FlushDB(ctx).Err())
			for _, statement := range []string{"DELETE FROM usage_days", "UPDATE usage_moves SET moved_at = NULL"} {
				require.NoError(t, m.db.Exec(statement).Error)
			}
			m.charge(day, from, 5)
			m.charge(day, to, 7)
			require.NoError(t, m.Copy(ctx))
			plant()
			for _, act := range []func() error{
				func() error { return m.Copy(ctx) }, func() error { return m.DeliverMoves(ctx, "") },
				func() error { return m.Copy(ctx) },
			} {
				if err := act(); !strings.HasPrefix(place, "key ") {
					require.NoError(t, err, place)
				}
				for _, account := range []string{from, to} {
					used, err := m.Used(ctx, account, noon)
					require.True(t, err != nil || used >= 0 && used <= most, "%s: %d", place, used)
					recent, err := m.Recent(ctx, account)
					require.True(t, err != nil || recent >= 0 && recent <= 4, "%s: %d", place, recent)
				}
				saved := m.saved(day)
				require.True(t, saved[to] >= 7 && saved[to] <= most, "%s: %v", place, saved)
			}
			if used, err := m.Used(ctx, to, noon); err == nil && place == "count of "+from {
				require.GreaterOrEqual(t, used, 7, "%s: the merged account's value is no count", place)
			}
			require.NoError(t, client.FlushDB(ctx).Err())
			require.NoError(t, m.Restore(ctx, day), place)
			used := storetest.Must(m.Used(ctx, to, noon))(t)
			require.Equal(t, m.saved(day)[to], used, "%s: restored without a restart", place)
		}
	})
}
