package up

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/operator"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// whileUp runs `up` in the default data directory, calls during once the output contains text, and stops it.
func whileUp(t *testing.T, text string, during func(out *servicetest.Log)) {
	t.Helper()
	admin := storetest.FreeAddress(t)
	t.Setenv("OPPORTUNITY_ADMIN_URL", "http://"+admin)
	ctx, stop := context.WithCancel(t.Context())
	out, ended := new(servicetest.Log), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Listen: "127.0.0.1:0", AdminListen: admin, DeskListen: "127.0.0.1:0", DataDir: operator.DefaultDataDir, Seed: "sample", Out: out, Err: out,
		})
	}()
	storetest.Eventually(t, text, func() bool { return strings.Contains(out.String(), text) })
	during(out)
	stop()
	require.NoError(t, <-ended)
}

// command runs a command of operators and returns its output.
func command(t *testing.T, line string) (string, error) {
	t.Helper()
	root, out := &cobra.Command{SilenceErrors: true, SilenceUsage: true}, new(bytes.Buffer)
	root.AddCommand(verbs.Commands()...)
	root.SetOut(out)
	root.SetArgs(strings.Fields(line))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// follow runs the commands of the block of a page that begins with first. It returns their output.
func follow(t *testing.T, page, first string) (said string) {
	t.Helper()
	_, rest, found := strings.Cut(page, "```sh\n"+first)
	require.True(t, found, "no block begins with %s", first)
	block, _, _ := strings.Cut(first+rest, "```")
	for line := range strings.Lines(block) {
		verb, ours := strings.CutPrefix(strings.TrimSpace(line), "opportunity ")
		if !ours {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
			require.NoError(t, err, "%s: %s", line, out)
			continue
		}
		verb, file, redirected := strings.Cut(verb, " > ")
		out, err := command(t, verb)
		require.NoError(t, err, "%s: %s", line, out)
		if redirected {
			require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
		}
		said += out
	}
	return said
}

// number returns the result of a query on a database of the data directory.
func number(t *testing.T, service, query string) (n int64) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(operator.DefaultDataDir, service+".db"))
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// sequence returns the sequence of the mark that a service keeps of the store of another.
func sequence(t *testing.T, keeper, store string) int64 {
	t.Helper()
	return number(t, keeper, "SELECT coalesce(max(CAST(substr(mark, 1, instr(mark, '.') - 1) AS integer)), 0) FROM feed_copies WHERE feed = 'mark of "+store+"'")
}

// withdrawn reports whether history knows that a record is not public.
func withdrawn(t *testing.T) bool {
	t.Helper()
	return number(t, "history", "SELECT published FROM listings WHERE id = 'maple-scribe'") == 0
}

func TestBackupPageOnOneMachine(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/operators/backup.md")
	require.NoError(t, err)
	page := string(text)
	t.Chdir(t.TempDir())
	whileUp(t, "curl ", func(*servicetest.Log) {})
	follow(t, page, "cp -a .opportunity saved")
	var key struct{ ID, Key string }
	whileUp(t, "curl ", func(*servicetest.Log) {
		out, err := command(t, "keys issue --tier free --use-case testing --output json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), &key))
		_, err = command(t, "keys revoke "+key.ID)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile("events.jsonl", []byte(apitest.Line(apitest.Verified("maple-scribe", time.Now().Add(-time.Minute)))), 0o600))
		_, err = command(t, "events append events.jsonl")
		require.NoError(t, err)
		_, err = command(t, "listings withdraw maple-scribe")
		require.NoError(t, err)
		storetest.Eventually(t, "the services have seen the changes of each other", func() bool {
			return sequence(t, "catalog", "history") == number(t, "history", "SELECT value FROM change_sequence") &&
				withdrawn(t)
		})
		follow(t, page, "opportunity history export")
	})

	follow(t, page, "rm -f .opportunity/history.db")
	whileUp(t, "history.db is older than what catalog.db has seen", func(out *servicetest.Log) {
		_, err := command(t, "history verify")
		require.Error(t, err)
		_, err = command(t, "recover history")
		require.ErrorContains(t, err, "--accept or --replay FILE")
		_, err = command(t, "status")
		require.ErrorContains(t, err, "history (set back)")
		require.Contains(t, follow(t, page, "opportunity recover history"), "everything matches")
		storetest.Eventually(t, "up continues", func() bool { return strings.Contains(out.String(), "curl ") })
		storetest.Eventually(t, "history has seen the newest change of catalog", func() bool {
			return sequence(t, "history", "catalog") == number(t, "catalog", "SELECT value FROM change_sequence") && withdrawn(t)
		})
	})

	follow(t, page, "rm -f .opportunity/catalog.db")
	whileUp(t, "catalog.db is older than what history.db has seen", func(out *servicetest.Log) {
		said := follow(t, page, "opportunity recover catalog")
		require.Contains(t, said, "kept withdrawn: maple-scribe")
		require.Contains(t, said, "generation 2 begins")
		storetest.Eventually(t, "up continues", func() bool { return strings.Contains(out.String(), "curl ") })
		_, err := command(t, "recover catalog --accept")
		require.ErrorContains(t, err, "not set back")
		follow(t, page, "opportunity listings import")
		require.Equal(t, int64(1), number(t, "catalog", "SELECT count(*) FROM listings WHERE id = 'maple-scribe' AND visibility = 'withdrawn'"))
	})

	whileUp(t, "curl ", func(*servicetest.Log) {
		change := number(t, "billing", "INSERT INTO changes SELECT value + 1, 'a purchase' FROM change_sequence RETURNING sequence")
		storetest.Eventually(t, "authquota has seen the change", func() bool {
			return sequence(t, "authquota", "billing") == change
		})
	})
	follow(t, page, "rm -f .opportunity/billing.db")
	whileUp(t, "billing.db is older than what authquota.db has seen", func(out *servicetest.Log) {
		_, err := command(t, "billing reconcile")
		require.ErrorContains(t, err, "set back")
		require.Contains(t, follow(t, page, "opportunity recover billing"), "generation 2 begins")
		storetest.Eventually(t, "up continues", func() bool { return strings.Contains(out.String(), "curl ") })
		_, err = command(t, "billing reconcile")
		require.NoError(t, err)
	})

	follow(t, page, "rm -f .opportunity/authquota.db")
	whileUp(t, "authquota.db is older than its journal", func(out *servicetest.Log) {
		_, err := command(t, "keys list")
		require.ErrorContains(t, err, "set back")
		require.Contains(t, follow(t, page, "opportunity recover authquota"), "replayed: changes 2")
		storetest.Eventually(t, "up continues", func() bool { return strings.Contains(out.String(), "curl ") })
		said, err := command(t, "keys list --output json")
		require.NoError(t, err)
		require.Regexp(t, key.ID+`[^}]*"status": ?"revoked"`, said)
	})
}
