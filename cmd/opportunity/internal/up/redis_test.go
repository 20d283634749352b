package up

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"

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

// A full disk must not stop the services: the next save succeeds once it has space.
func TestSaveIsTriedAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		saves := 0
		ctx, stop := context.WithTimeout(t.Context(), 4*saveInterval)
		defer stop()
		require.NoError(t, saving(func() error {
			if saves++; saves < 3 {
				return errors.New("no space left on device")
			}
			return nil
		}, slog.New(slog.NewTextHandler(&log, nil)))(ctx))
		require.GreaterOrEqual(t, saves, 4)
		require.Regexp(t, `(?s)level=ERROR[^\n]*no space left[^\n]*\n[^\n]*recovered[^\n]*\n$`, log.String())
	})
}
