package keyusage_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/testkit"
)

// However requests, connections, copies and interrupted copies interleave, each request counts
// once, for the final holder of the key. Losses of Redis and failovers may lose requests, and never
// count one twice.
func TestMergedUsageIsTheSumExactlyOnce(t *testing.T) {
	db := testkit.Open(t, testkit.Schema.SQLite(t), nil)
	c := newRedis(t)
	copied := onScript(t, c, "copied.lua")
	now := testkit.Start
	db.Now = func() time.Time { return now }
	rapid.Check(t, func(rt *rapid.T) {
		now = now.AddDate(0, 0, 1) // each run has its own day
		newModel(rt, db, c, copied).run()
	})
}

func newRedis(t *testing.T) *redis.Client {
	t.Helper()
	server, err := embedded.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Close)
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newAccount creates an account and returns its ID.
func newAccount(t require.TestingT, db testkit.DB) string {
	digests++
	key, err := keys.NewStore(db.DB).Issue(context.Background(), "ada", keys.Order{UseCase: "x", Tier: api.Free}, keys.MaxLife,
		keys.Record{Digest: fmt.Sprintf("%064x", digests), Prefix: "oda_live_", LastFour: "abcd"})
	require.NoError(t, err)
	return key.Account
}

var digests int

// model compares the counters with the requests that were made.
type model struct {
	*rapid.T

	ctx      context.Context
	db       testkit.DB
	redis    *redis.Client
	store    *keyusage.Store
	counters *keyusage.Counters
	copied   *scriptHook

	day      string
	person   string // takes over the keys of the others
	accounts []string
	holder   map[string]string // by account: the account that its requests count for
	charged  map[string]string // by account: the account that gateways charge
	calls    map[string]int    // by account
	faults   int
}

func newModel(t *rapid.T, db testkit.DB, c *redis.Client, copied *scriptHook) *model {
	saved := keyusage.NewStore(db.DB)
	m := &model{
		T: t, ctx: context.Background(), db: db, redis: c, store: saved, day: counter.DayOf(db.Now()), person: newAccount(t, db),
		copied: copied,
		holder: map[string]string{}, charged: map[string]string{}, calls: map[string]int{},
	}
	m.counters = keyusage.NewCounters(c, saved)
	m.accounts = []string{m.person}
	for range rapid.IntRange(1, 4).Draw(t, "older keys") {
		m.accounts = append(m.accounts, newAccount(t, db))
	}
	for _, a := range m.accounts {
		m.holder[a], m.charged[a] = a, a
	}
	return m
}

func (m *model) run() {
	acts := map[string]func(){
		"call": m.call, "connect": m.connect, "deliver": m.deliver, "copy": m.copyAll, "interrupted copy": m.interruptedCopy, "lose": m.lose,
		"restore": m.restore, "fail over": m.failOver,
	}
	for range rapid.IntRange(1, 20).Draw(m.T, "acts") {
		acts[rapid.SampledFrom([]string{"call", "call", "call", "connect", "deliver", "copy", "interrupted copy", "lose", "restore", "fail over"}).Draw(m.T, "act")]()
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
	require.NoError(m, m.counters.DeliverMoves(m.ctx, ""))
	maps.Copy(m.charged, m.holder)
}

// failOver delivers the moves, and then replaces the counters by those of a replica that lagged: it
// lacks the moves.
func (m *model) failOver() {
	before := replicate(m, m.redis, m.day)
	m.deliver()
	if rapid.Bool().Draw(m.T, "copied before") {
		m.copyAll()
	}
	before.takeOver()
	m.faults++
}

func (m *model) copyAll() { require.NoError(m, m.counters.Copy(m.ctx)) }

func (m *model) interruptedCopy() {
	m.copied.before = func() error { return errors.New("stopped") } // after the counts were saved
	_ = m.counters.Copy(m.ctx)
	m.copied.before = nil
}

// lose empties Redis. The requests since the last copy are forgotten.
func (m *model) lose() {
	require.NoError(m, m.redis.FlushAll(m.ctx).Err())
	maps.Copy(m.charged, m.holder)
	m.faults++
}

func (m *model) restore() { require.NoError(m, m.counters.Restore(m.ctx, m.day)) }

func (m *model) check() {
	want, all, counted := map[string]int{}, 0, 0
	for a, n := range m.calls {
		want[m.holder[a]] += n
		all += n
	}
	for _, a := range m.accounts {
		saved, err := m.store.UsedOn(m.ctx, a, m.db.Now())
		require.NoError(m, err)
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

// replica is a copy of the counters of a day.
type replica struct {
	t       require.TestingT
	redis   *redis.Client
	day     string
	hashes  map[string]map[string]string
	changed []string
}

func replicate(t require.TestingT, c *redis.Client, day string) replica {
	r := replica{t, c, day, map[string]map[string]string{}, c.SMembers(context.Background(), counter.Changed(day)).Val()}
	for _, key := range []string{counter.Day(day), counter.Epochs, counter.Merged} {
		r.hashes[key] = c.HGetAll(context.Background(), key).Val()
	}
	return r
}

// takeOver replaces the data of Redis by that of the replica.
func (r replica) takeOver() {
	ctx := context.Background()
	require.NoError(r.t, r.redis.FlushAll(ctx).Err())
	for key, fields := range r.hashes {
		if len(fields) > 0 {
			require.NoError(r.t, r.redis.HSet(ctx, key, fields).Err())
		}
	}
	for _, field := range r.changed {
		require.NoError(r.t, r.redis.SAdd(ctx, counter.Changed(r.day), field).Err())
	}
}
