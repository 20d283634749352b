package up

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func requireMode(t *testing.T, file string, want os.FileMode) {
	t.Helper()
	info := storetest.Must(os.Stat(file))(t)
	require.Equal(t, want, info.Mode().Perm(), file)
}

func TestDataDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "data")
	d := storetest.Must(openDataDir(path))(t)
	requireMode(t, path, 0o700)

	secret := storetest.Must(d.Secret("token"))(t)
	require.Len(t, secret, 64)
	requireMode(t, d.File("token"), 0o600)
	require.Equal(t, secret, storetest.Must(d.Secret("token"))(t))
	require.NotEqual(t, secret, storetest.Must(d.Secret("pepper"))(t))

	require.ErrorContains(t, storetest.Err(openDataDir(path)), path+" is in use by another process")
	d.Unlock()
	storetest.Must(openDataDir(path))(t).Unlock()
}

// An existing directory may be readable by others; the databases in it must not be.
func TestDatabasesAreReadableByOwnerOnly(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"old.db", "old.db-wal", "old.db-shm"} {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), nil, 0o644))
	}
	d := storetest.Must(openDataDir(path))(t)
	defer d.Unlock()
	url := storetest.Must(d.Database("new"))(t)
	plain := storetest.Plain(t, url)
	for _, statement := range []string{"PRAGMA journal_mode = WAL", "CREATE TABLE a (b)"} {
		storetest.Must(plain.ExecContext(t.Context(), statement))(t)
	}
	files := storetest.Must(filepath.Glob(filepath.Join(path, "*.db*")))(t)
	require.Len(t, files, 6)
	for _, file := range files {
		requireMode(t, file, 0o600)
	}
}

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

// A file is replaced atomically, and an unreadable file is an error, not a missing file.
func TestStateFiles(t *testing.T) {
	d := &dataDir{Path: t.TempDir()}
	state := seedState{Seed: "sample"}
	require.NoError(t, d.Read("state.json", &state))
	require.Equal(t, seedState{Seed: "sample"}, state)
	require.NoError(t, d.Save("state.json", seedState{Seed: "none", Done: true}))
	require.NoError(t, d.Read("state.json", &state))
	require.Equal(t, seedState{Seed: "none", Done: true}, state)

	require.NoError(t, os.WriteFile(d.File("state.json"), []byte("{"), 0o600))
	require.ErrorContains(t, d.Read("state.json", &state), "state.json")
	names := storetest.Must(filepath.Glob(d.File("*.json.*")))(t)
	require.Empty(t, names, "partly written files")
}
