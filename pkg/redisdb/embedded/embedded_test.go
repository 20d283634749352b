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

func start(t *testing.T) *embedded.Server {
	t.Helper()
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	t.Cleanup(server.Close)
	return server
}

// connect returns a client with the user and password of a URL.
func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	client := redis.NewClient(storetest.Must(redis.ParseURL(url))(t))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// The gateway's scripts read the server's clock, which must agree with the wall clock, and keys
// expire by it.
func TestScriptsAndKeysHaveTheWallClock(t *testing.T) {
	client := connect(t, start(t).URL())
	before := time.Now().UnixMicro()
	got, err := client.Eval(t.Context(), `local t = redis.call('TIME')
		redis.call('SET', KEYS[1], 1, 'PX', 30)
		redis.call('SET', KEYS[2], 1, 'EX', 3600)
		return string.format('%.0f', t[1] * 1000000 + t[2])`, []string{"short", "long"}).Int64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, before)
	require.LessOrEqual(t, got, time.Now().UnixMicro())
	storetest.Eventually(t, "expired", func() bool {
		n, err := client.Eval(t.Context(), `return redis.call('EXISTS', KEYS[1])`, []string{"short"}).Int()
		return err == nil && n == 0 && client.Exists(t.Context(), "short").Val() == 0
	})
	left := client.PTTL(t.Context(), "long").Val()
	require.Less(t, left, time.Hour)
	require.Greater(t, left, 59*time.Minute)
}

func TestAddressInUse(t *testing.T) {
	_, err := embedded.Start(start(t).URL()[len("redis://"):])
	require.ErrorContains(t, err, "embedded redis")
}

func TestPasswordIsRequired(t *testing.T) {
	server := start(t)
	without := server.URL()
	require.NoError(t, connect(t, without).Ping(t.Context()).Err())
	server.RequirePassword("a secret: with / signs")
	require.NoError(t, connect(t, server.URL()).Set(t.Context(), "k", "v", 0).Err())
	require.ErrorContains(t, connect(t, without).Get(t.Context(), "k").Err(), "NOAUTH")
}
