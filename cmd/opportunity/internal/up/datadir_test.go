package up

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func requireMode(t *testing.T, file string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, want, info.Mode().Perm(), file)
}

func TestDataDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "data")
	d, err := openDataDir(path)
	require.NoError(t, err)
	requireMode(t, path, 0o700)

	secret, err := d.Secret("token")
	require.NoError(t, err)
	require.Len(t, secret, 64)
	requireMode(t, d.File("token"), 0o600)
	again, err := d.Secret("token")
	require.NoError(t, err)
	require.Equal(t, secret, again)
	other, err := d.Secret("pepper")
	require.NoError(t, err)
	require.NotEqual(t, secret, other)

	_, err = openDataDir(path)
	require.ErrorContains(t, err, path+" is in use by another process")
	d.Unlock()
	d, err = openDataDir(path)
	require.NoError(t, err)
	d.Unlock()
}

// An existing directory may be readable by others; the databases in it must not be.
func TestDatabasesAreReadableByOwnerOnly(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"old.db", "old.db-wal", "old.db-shm"} {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), nil, 0o644))
	}
	d, err := openDataDir(path)
	require.NoError(t, err)
	defer d.Unlock()
	url, err := d.Database("new")
	require.NoError(t, err)
	plain := storetest.Plain(t, url)
	for _, statement := range []string{"PRAGMA journal_mode = WAL", "CREATE TABLE a (b)"} {
		_, err = plain.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	files, err := filepath.Glob(filepath.Join(path, "*.db*"))
	require.NoError(t, err)
	require.Len(t, files, 6)
	for _, file := range files {
		requireMode(t, file, 0o600)
	}
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
	names, err := filepath.Glob(d.File("*.json.*"))
	require.NoError(t, err)
	require.Empty(t, names, "partly written files")
}
