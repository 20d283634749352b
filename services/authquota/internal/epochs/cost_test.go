package epochs

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/testkit"
)

// trips counts the commands and pipelines of a client.
type trips struct{ n int }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { t.n++; return next(ctx, cmd) }
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { t.n++; return next(ctx, cmds) }
}

// newEpochs returns the publisher of a database, and the numbers of its statements and trips so
// far.
func newEpochs(t testing.TB, db testkit.DB) (e *Epochs, used func() (statements, trips int)) {
	t.Helper()
	client, counted, statements := redistest.Start(t).Client(), new(trips), 0
	client.AddHook(counted)
	count := func(*gorm.DB) { statements++ }
	c := db.Callback()
	require.NoError(t, errors.Join(c.Create().Before("*").Register("count", count),
		c.Query().Before("*").Register("count", count), c.Update().Before("*").Register("count", count),
		c.Delete().Before("*").Register("count", count), c.Row().Before("*").Register("count", count),
		c.Raw().Before("*").Register("count", count)))
	e = &Epochs{
		Redis: client, DB: db.DB,
		Guard: setback.New("authquota", setback.Store{DB: db.DB.DB, Changes: "changes"}, slog.New(slog.DiscardHandler),
			prometheus.NewRegistry()),
	}
	db.Publisher = e
	return e, func() (int, int) {
		defer func() { statements, counted.n = 0, 0 }()
		return statements, counted.n
	}
}

// What others remember costs a change three statements and a trip, a lookup one of each, and a
// second without changes one of each.
func TestCosts(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		e, used := newEpochs(t, db)
		require.NoError(t, e.Poll(t.Context()))
		store, digest := keys.NewStore(db.DB), strings.Repeat("a", 64)
		issued, err := store.Issue(t.Context(), "ann", api.KeyOrder{Tier: api.Free, UseCase: "x"}, keys.MaxLife, keys.Record{
			Digest: digest, LastFour: "abcd",
		})
		require.NoError(t, err)

		used()
		require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error { return tx.Touch(issued.Account) }))
		statements, trips := used()
		require.Equal(t, []int{3, 1}, []int{statements, trips}, "a change")
		require.Greater(t, e.Redis.TTL(t.Context(), counter.Epochs).Val(), counter.EpochsTTL-time.Minute)
		used()
		require.NoError(t, e.InEffect(t.Context(), func(ctx context.Context) (accountdb.Epoch, error) {
			k, err := store.Resolve(ctx, []string{digest})
			return k.Epoch, err
		}))
		statements, trips = used()
		require.Equal(t, []int{1, 1}, []int{statements, trips}, "a lookup")
		require.NoError(t, e.Poll(t.Context()))
		statements, trips = used()
		require.Equal(t, []int{1, 1}, []int{statements, trips}, "a poll")
	})
}

// Redis knows which accounts have lost changes if it has published the newest change that is lost.
func TestLossIsExactOnlyIfRedisHasTheNewestLostChange(t *testing.T) {
	db := testkit.Open(t, testkit.Schema.SQLite(t), time.Now)
	e, _ := newEpochs(t, db)
	require.NoError(t, e.Poll(t.Context()))
	of := func(sequence int64) string {
		return setback.Mark{Generation: e.Known().Generation, Sequence: sequence, ID: "x"}.String()
	}
	for name, c := range map[string]struct {
		published, gateway, claim string
		exact                     bool
	}{
		"nothing published":                        {"", of(7), of(7), false},
		"published by this database":               {e.Known().String(), of(7), of(7), false},
		"newest":                                   {of(7), of(7), of(6), true},
		"gateway has seen a change in an outage":   {of(7), of(8), of(7), false},
		"gateways have seen a change in an outage": {of(7), of(7), of(8), false},
		"forged claim":                             {of(7), of(7), "0123456789abcdef.9.x", true},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, e.Redis.HSet(t.Context(), counter.Epochs, counter.EpochsMark, c.published).Err())
			require.NoError(t, e.Redis.HSet(t.Context(), counter.Marks, peer.Authquota, c.gateway).Err())
			require.NoError(t, db.Exec("DELETE FROM claims").Error)
			require.NoError(t, db.Exec("INSERT INTO claims (mark) VALUES (?)", c.claim).Error)
			require.Equal(t, c.exact, storetest.Must(ReadLost(t.Context(), e.Redis, e.Store))(t).exact)
		})
	}
}
