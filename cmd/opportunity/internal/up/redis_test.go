package up

import (
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestOtherUsersCannotChangeCounters(t *testing.T) {
	passwords := map[string]bool{}
	for range 2 {
		s, err := startRedis(filepath.Join(t.TempDir(), "redis.json"))
		require.NoError(t, err)
		defer s.Close()
		options, err := redis.ParseURL(s.URL())
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(options.Password), 26, "128 random bits")
		passwords[options.Password] = true
		options.Password = ""
		client := redis.NewClient(options)
		defer client.Close()
		require.ErrorContains(t, client.Incr(t.Context(), "counter").Err(), "NOAUTH")
	}
	require.Len(t, passwords, 2)
}
