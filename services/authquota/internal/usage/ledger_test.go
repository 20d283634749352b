package usage_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota/internal/usage"
)

type write struct {
	day    string
	counts []usage.Count
}

// fakeStore is a store that records what it is given and fails as configured.
type fakeStore struct {
	writes []write
	fail   error
	saved  func() // called after each write
}

func (k *fakeStore) SaveDay(_ context.Context, day string, counts []usage.Count) error {
	if k.fail == nil {
		k.writes = append(k.writes, write{day, counts})
		if k.saved != nil {
			k.saved()
		}
	}
	return k.fail
}

// charge sets a counter as the gateway does.
func charge(t *testing.T, c *redis.Client, day, account string, calls any) {
	t.Helper()
	require.NoError(t, c.HSet(t.Context(), counter.Day(day), account, calls).Err())
	require.NoError(t, c.SAdd(t.Context(), counter.Changed(day), account).Err())
}

func TestCopy(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		now := time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC)
		store := new(fakeStore)
		copier := usage.NewLedger(c, store, func() time.Time { return now })
		copied := func(want ...write) {
			t.Helper()
			store.writes = nil
			require.NoError(t, copier.Copy(t.Context()))
			require.Equal(t, want, store.writes)
		}

		copied()
		charge(t, c, "2026-11-20", "b", 2)
		charge(t, c, "2026-11-20", "a", 1)
		copied(write{"2026-11-20", []usage.Count{{Account: "a", Calls: 1}, {Account: "b", Calls: 2}}})
		copied() // nothing changed, nothing written
		charge(t, c, "2026-11-20", "b", 3)
		store.fail = errors.New("no database")
		require.ErrorIs(t, copier.Copy(t.Context()), store.fail)
		store.fail = nil
		copied(write{"2026-11-20", []usage.Count{{Account: "b", Calls: 3}}}) // a failed write is repeated

		now = time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC)
		charge(t, c, "2026-11-20", "b", 4)
		charge(t, c, "2026-11-21", "b", 1)
		copied(write{"2026-11-20", []usage.Count{{Account: "b", Calls: 4}}}, write{"2026-11-21", []usage.Count{{Account: "b", Calls: 1}}})
		now = now.Add(time.Hour)
		require.Equal(t, time.Hour, copier.Lag())
		charge(t, c, "2026-11-20", "b", 5)
		copied(write{"2026-11-20", []usage.Count{{Account: "b", Calls: 5}}}) // once more, then it is final
		require.Zero(t, copier.Lag())
		charge(t, c, "2026-11-20", "b", 6)
		charge(t, c, "2026-11-21", "c", 0) // refunded
		copied()

		charge(t, c, "2026-11-21", "b", "many")
		require.ErrorContains(t, copier.Copy(t.Context()), "not a number")
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
	require.Equal(t, problem.ServiceUnavailable, problem.Of(usage.NewLedger(c, new(fakeStore), time.Now).Copy(t.Context())).Code)
}

// A counter that changes while it is saved is saved again. A counter that Redis loses meanwhile is not.
func TestCountersThatChangeMeanwhileAreCopiedAgain(t *testing.T) {
	onServers(t, func(t *testing.T, c *redis.Client) {
		noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		store := new(fakeStore)
		copier := usage.NewLedger(c, store, func() time.Time { return noon })
		charge(t, c, day, "a", 1)
		charge(t, c, day, "b", 1)
		store.saved = func() { charge(t, c, day, "b", 2); store.saved = nil }
		require.NoError(t, copier.Copy(t.Context()))
		require.NoError(t, copier.Copy(t.Context()))
		require.Equal(t, []write{
			{day, []usage.Count{{Account: "a", Calls: 1}, {Account: "b", Calls: 1}}}, {day, []usage.Count{{Account: "b", Calls: 2}}},
		}, store.writes)
		require.Zero(t, c.Exists(t.Context(), counter.Changed(day)).Val())

		charge(t, c, day, "a", 5)
		require.NoError(t, c.Del(t.Context(), counter.Day(day)).Err())
		require.NoError(t, copier.Copy(t.Context()))
		require.Len(t, store.writes, 2)
		require.Zero(t, c.Exists(t.Context(), counter.Changed(day)).Val())
	})
}

// pending is an outbox with the same moves forever.
type pending []usage.Move

func (p pending) Moves(context.Context, string) ([]usage.Move, error)   { return p, nil }
func (p pending) MovesOn(context.Context, string) ([]usage.Move, error) { return p, nil }
func (pending) DeleteMove(context.Context, usage.Move) error            { return nil }

// However many pages a copy has and wherever a move happens between them, each state of the ledger restores the sum of both accounts:
// a count that includes a move and its marker are saved together.
func TestMovesAreCopiedWithTheirCounts(t *testing.T) {
	const from, to = "acc_00000000000000000000000000000007", "acc_00000000000000000000000000000011"
	move := usage.Move{Day: day, From: from, To: to}
	const pages = 4
	for at := range pages {
		c := redistest.Start(t).Client()
		_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, count := range accounts(pages * 500) {
				p.HSet(t.Context(), counter.Day(day), count.Account, count.Calls)
				p.SAdd(t.Context(), counter.Changed(day), count.Account)
			}
			return nil
		})
		require.NoError(t, err)
		saved := map[string]int{from: 8, to: 12} // from an earlier copy
		charge(t, c, day, to, 30)
		store := new(fakeStore)
		store.saved = func() {
			for _, count := range store.writes[len(store.writes)-1].counts {
				saved[count.Account] = max(saved[count.Account], count.Calls)
			}
			restored := usage.Moved(maps.Clone(saved), []usage.Move{move})
			require.Contains(t, []int{8 + 12, 8 + 30}, restored[to], "after page %d, move at %d", len(store.writes), at)
			if len(store.writes) == at+1 {
				require.NoError(t, usage.NewMerges(c, pending{move}, time.Now, new(atomic.Bool)).Deliver(t.Context(), ""))
			}
		}
		copier := usage.NewLedger(c, store, func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) })
		for range 2 {
			require.NoError(t, copier.Copy(t.Context()))
		}
		require.GreaterOrEqual(t, len(store.writes), pages)
		require.Equal(t, []int{1, 38}, []int{saved[counter.Moved(from)], saved[to]})
		for _, w := range store.writes {
			require.True(t, slices.IsSortedFunc(w.counts, func(a, b usage.Count) int { return strings.Compare(a.Account, b.Account) }))
		}
		require.Zero(t, c.Exists(t.Context(), counter.Changed(day), counter.Moves(day)).Val())
	}
}
