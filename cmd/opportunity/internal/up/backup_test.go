package up

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/storetest"
)

// The backup is made while changes are made and seen by other services. Restored, no service lacks
// a change that another one, or Redis, has seen.
func TestBackupWhileUpRunsIsRestored(t *testing.T) {
	t.Chdir(t.TempDir())
	var kept, revoked struct{ ID, Key string }
	issue := func(k any) {
		out, err := command(t, "keys issue --tier free --use-case testing --output json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), k))
	}
	var before string
	whileUp(t, "curl ", func(func() string) {
		issue(&kept)
		issue(&revoked)
		_, err := command(t, "keys revoke "+revoked.ID)
		require.NoError(t, err)
		before, err = command(t, "keys list --output json")
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() { // changes during the backup
			defer close(ended)
			for range 5 {
				_, _ = command(t, "listings withdraw maple-scribe --reason trial")
				_, _ = command(t, "listings publish maple-scribe --yes")
			}
		}()
		require.NoError(t, backup(t.Context(), adminapi.DefaultDataDir, "saved"))
		<-ended
		issue(new(struct{}))
	})
	files, err := filepath.Glob("saved/*.db*")
	require.NoError(t, err)
	require.Equal(t, []string{"saved/authquota.db", "saved/billing.db", "saved/catalog.db", "saved/history.db"}, files)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), file)
	}
	require.ErrorContains(t, backup(t.Context(), adminapi.DefaultDataDir, "saved"), "exists")

	require.NoError(t, os.RemoveAll(adminapi.DefaultDataDir))
	require.NoError(t, os.Rename("saved", adminapi.DefaultDataDir))
	whileUp(t, "curl ", func(said func() string) {
		require.NotContains(t, said(), "is older than")
		storetest.Eventually(t, "everything is ready", func() bool {
			_, err := command(t, "status")
			return err == nil
		})
		after, err := command(t, "keys list --output json")
		require.NoError(t, err)
		require.JSONEq(t, before, after)
		require.Contains(t, after, kept.ID)
		_, err = command(t, "history verify")
		require.NoError(t, err)
	})
}

func TestFailedBackupLeavesNothing(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "saved")
	require.NoError(t, os.WriteFile(filepath.Join(from, "catalog.db"), []byte(strings.Repeat("not a database", 100)),
		0o600))
	require.ErrorContains(t, backup(t.Context(), from, to), "file is not a database")
	entries, err := os.ReadDir(filepath.Dir(to))
	require.NoError(t, err)
	require.Empty(t, entries)
}
