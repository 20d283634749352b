package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/services/authquota/internal/usage"
	"opportunity.internal/services/authquota/internal/usage/ledger"
)

type write struct {
	day    string
	counts []usage.Count
}

// keeper is a fake store that records what it is given and fails as configured.
type keeper struct {
	writes []write
	fail   error
}

func (k *keeper) SaveDay(_ context.Context, day string, counts []usage.Count) error {
	if k.fail == nil {
		k.writes = append(k.writes, write{day, counts})
	}
	return k.fail
}

func TestCopy(t *testing.T) {
	server, err := embedded.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Close)
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	charge := func(day, account string, calls any) {
		t.Helper()
		require.NoError(t, client.HSet(t.Context(), counter.Day(day), account, calls).Err())
	}

	now := time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC)
	kept := new(keeper)
	books := ledger.New(client, kept, func() time.Time { return now })
	copied := func(want ...write) {
		t.Helper()
		kept.writes = nil
		require.NoError(t, books.Copy(t.Context()))
		require.Equal(t, want, kept.writes)
	}

	copied()
	charge("2026-11-20", "b", 2)
	charge("2026-11-20", "a", 1)
	copied(write{"2026-11-20", []usage.Count{{Account: "a", Calls: 1}, {Account: "b", Calls: 2}}})
	copied() // nothing changed, nothing written
	charge("2026-11-20", "b", 3)
	kept.fail = errors.New("no database")
	require.ErrorIs(t, books.Copy(t.Context()), kept.fail)
	kept.fail = nil
	copied(write{"2026-11-20", []usage.Count{{Account: "b", Calls: 3}}}) // a failed write is repeated

	now = time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC)
	charge("2026-11-20", "b", 4)
	charge("2026-11-21", "b", 1)
	copied(write{"2026-11-20", []usage.Count{{Account: "b", Calls: 4}}}, write{"2026-11-21", []usage.Count{{Account: "b", Calls: 1}}})
	now = now.Add(time.Hour)
	require.Equal(t, time.Hour, books.Lag())
	charge("2026-11-20", "b", 5)
	copied(write{"2026-11-20", []usage.Count{{Account: "b", Calls: 5}}}) // once more, then it is final
	require.Zero(t, books.Lag())
	charge("2026-11-20", "b", 6)
	copied()

	charge("2026-11-21", "b", "many")
	require.ErrorContains(t, books.Copy(t.Context()), "not a number")
	server.Close()
	require.Equal(t, problem.ServiceUnavailable, problem.Of(books.Copy(t.Context())).Code)
}
