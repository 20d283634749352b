package up

import (
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
	var before, kept string
	whileUp(t, "curl ", func(func() string) {
		kept = issue(t).ID
		succeed(t, "keys revoke "+issue(t).ID)
		before = succeed(t, "keys list --output json")
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
		issue(t)
	})
	files := storetest.Must(filepath.Glob("saved/*.db*"))(t)
	require.Equal(t, []string{"saved/authquota.db", "saved/billing.db", "saved/catalog.db", "saved/history.db"}, files)
	for _, file := range files {
		requireMode(t, file, 0o600)
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
		after := succeed(t, "keys list --output json")
		require.JSONEq(t, before, after)
		require.Contains(t, after, kept)
		succeed(t, "history verify")
	})
}

func TestFailedBackupLeavesNothing(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "saved")
	require.NoError(t, os.WriteFile(filepath.Join(from, "catalog.db"), []byte(strings.Repeat("not a database", 100)),
		0o600))
	require.ErrorContains(t, backup(t.Context(), from, to), "file is not a database")
	entries := storetest.Must(os.ReadDir(filepath.Dir(to)))(t)
	require.Empty(t, entries)
}
