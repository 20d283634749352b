package up

import (
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func TestOtherUsersCannotChangeCounters(t *testing.T) {
	passwords := map[string]bool{}
	for range 2 {
		s := storetest.Must(startRedis(filepath.Join(t.TempDir(), "redis.json")))(t)
		defer s.Close()
		options := storetest.Must(redis.ParseURL(s.URL()))(t)
		require.GreaterOrEqual(t, len(options.Password), 26, "128 random bits")
		passwords[options.Password] = true
		options.Password = ""
		client := redis.NewClient(options)
		defer client.Close()
		require.ErrorContains(t, client.Incr(t.Context(), "counter").Err(), "NOAUTH")
	}
	require.Len(t, passwords, 2)
}
