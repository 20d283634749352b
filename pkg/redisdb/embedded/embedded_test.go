package embedded_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *redis.Client {
	t.Helper()
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	options := storetest.Must(redis.ParseURL(server.URL()))(t)
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close(); server.Close() })
	return client
}

func TestKeysExpireByTheWallClock(t *testing.T) {
	client := start(t)
	require.NoError(t, client.Set(t.Context(), "short", 1, 30*time.Millisecond).Err())
	require.NoError(t, client.Set(t.Context(), "long", 1, time.Hour).Err())
	require.Eventually(t, func() bool { return client.Exists(t.Context(), "short").Val() == 0 }, 10*time.Second,
		time.Millisecond)
	left := client.PTTL(t.Context(), "long").Val()
	require.Less(t, left, time.Hour)
	require.Greater(t, left, 59*time.Minute)
}

// The gateway's scripts read the server's clock, which must agree with the wall clock.
func TestScriptsSeeTheWallClock(t *testing.T) {
	client := start(t)
	before := time.Now().UnixMicro()
	got, err := client.Eval(t.Context(), `local t = redis.call('TIME')
		redis.call('SET', KEYS[1], 1, 'PX', 30)
		return string.format('%.0f', t[1] * 1000000 + t[2])`, []string{"k"}).Int64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, before)
	require.LessOrEqual(t, got, time.Now().UnixMicro())
	require.Eventually(t, func() bool {
		n, err := client.Eval(t.Context(), `return redis.call('EXISTS', KEYS[1])`, []string{"k"}).Int()
		return err == nil && n == 0
	}, 10*time.Second, time.Millisecond)
}

func TestAddressInUse(t *testing.T) {
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	defer server.Close()
	_, err := embedded.Start(server.URL()[len("redis://"):])
	require.ErrorContains(t, err, "embedded redis")
}

func TestPasswordIsRequired(t *testing.T) {
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	defer server.Close()
	without := redis.NewClient(&redis.Options{Addr: server.URL()[len("redis://"):]})
	defer without.Close()
	require.NoError(t, without.Ping(t.Context()).Err())

	server.RequirePassword("a secret: with / signs")
	with := storetest.Must(redis.ParseURL(server.URL()))(t)
	client := redis.NewClient(with)
	defer client.Close()
	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())
	without = redis.NewClient(without.Options())
	defer without.Close()
	require.ErrorContains(t, without.Get(t.Context(), "k").Err(), "NOAUTH")
}
