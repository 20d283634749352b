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

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
)

// start starts `up` in the default data directory, which the commands of operators use too.
func start(t *testing.T) (out, errs *servicetest.Log, stop func()) {
	t.Helper()
	admin := storetest.FreeAddress(t)
	t.Setenv("OPPORTUNITY_ADMIN_URL", "http://"+admin)
	t.Setenv("OPPORTUNITY_ACTOR", "ann")
	ctx, cancel := context.WithCancel(t.Context())
	out, errs = new(servicetest.Log), new(servicetest.Log)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Listen: "127.0.0.1:0", AdminListen: admin, DeskListen: "127.0.0.1:0", OperationsListen: "127.0.0.1:0",
			DataDir: adminapi.DefaultDataDir, Seed: "sample", Out: out, Err: errs,
		})
	}()
	return out, errs, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// whileUp runs `up`, calls during once the output contains text, and stops it.
func whileUp(t *testing.T, text string, during func(said func() string)) {
	t.Helper()
	out, errs, stop := start(t)
	said := func() string { return out.String() + errs.String() }
	storetest.Eventually(t, text, func() bool { return strings.Contains(said(), text) })
	during(said)
	stop()
}

// command runs a command of operators and returns its output.
func command(t *testing.T, line string) (string, error) {
	t.Helper()
	root, out := &cobra.Command{SilenceErrors: true, SilenceUsage: true}, new(bytes.Buffer)
	root.AddCommand(append(verbs.Commands(), BackupCommand())...)
	root.SetOut(out)
	root.SetArgs(strings.Fields(line))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// succeed returns the output of a command of operators.
func succeed(t *testing.T, line string) string {
	t.Helper()
	return storetest.Must(command(t, line))(t)
}

// issue issues a key with the command of operators.
func issue(t *testing.T) (key api.IssuedKey) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "keys issue --tier free --use-case testing --output json")), &key))
	return key
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
	db := storetest.Must(sql.Open("sqlite", filepath.Join(adminapi.DefaultDataDir, service+".db")))(t)
	defer db.Close()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// seen waits until the others have seen the newest changes of a store: redis.json has the mark of
// the gateway.
func seen(t *testing.T, store, newest string) {
	t.Helper()
	storetest.Eventually(t, "the newest change of "+store+" is remembered", func() bool {
		text := storetest.Must(os.ReadFile(filepath.Join(adminapi.DefaultDataDir, verbs.RedisFile)))(t)
		var saved map[string]map[string]string
		require.NoError(t, json.Unmarshal(text, &saved))
		m, _ := setback.Parse(saved[counter.Marks][store])
		return m.Sequence == number(t, store, newest)
	})
}

// withdrawn reports whether history knows that a record is not public.
func withdrawn(t *testing.T) bool {
	t.Helper()
	return number(t, "history", "SELECT published FROM listings WHERE id = 'maple-scribe'") == 0
}

func TestBackupPageOnOneMachine(t *testing.T) {
	page := string(storetest.Must(os.ReadFile("../../../../docs/operators/backup.md"))(t))
	const sequence = "SELECT value FROM change_sequence"
	t.Chdir(t.TempDir())
	whileUp(t, "curl ", func(func() string) {})
	follow(t, page, "opportunity backup saved")
	var revoked api.IssuedKey
	whileUp(t, "curl ", func(func() string) {
		revoked = issue(t)
		issue(t)
		succeed(t, "keys revoke "+revoked.ID)
		require.NoError(t, os.WriteFile("events.jsonl",
			[]byte(apitest.Line(apitest.Verified("maple-scribe", time.Now().Add(-time.Minute)))), 0o600))
		succeed(t, "events append events.jsonl")
		succeed(t, "listings withdraw maple-scribe --reason closed")
		require.NoError(t, os.WriteFile("listings.jsonl", []byte(succeed(t, "listings export")), 0o600))
		storetest.Eventually(t, "history knows the withdrawal", func() bool { return withdrawn(t) })
		number(t, "billing", "INSERT INTO changes SELECT value + 1, 'a-purchase' FROM change_sequence RETURNING sequence")
		seen(t, "billing", "SELECT max(sequence) FROM changes")
		seen(t, "history", "SELECT max(sequence) FROM verification_events")
		seen(t, "authquota", sequence)
		seen(t, "catalog", sequence)
	})

	for _, store := range []string{"history", "catalog", "billing", "authquota"} {
		follow(t, strings.ReplaceAll(page, "history.db", store+".db"), "rm -f .opportunity/"+store+".db")
		whileUp(t, store+".db is older than what others remember of it", func(said func() string) {
			require.ErrorContains(t, storetest.Err(command(t, "recover "+store)), "--accept or --current")
			require.ErrorContains(t, storetest.Err(command(t, "status")), store+" (set back")
			require.Contains(t, follow(t, strings.ReplaceAll(page, "recover history", "recover "+store),
				"opportunity recover "+store), "a generation begins")
			storetest.Eventually(t, "up continues", func() bool {
				_, err := command(t, "status")
				return err == nil && strings.Contains(said(), "curl ")
			})
			require.JSONEq(t, `{"message": "the database of `+store+` is not set back: nothing to decide. A service `+
				`compares it with what others have seen when it runs"}`, succeed(t, "recover "+store+" --accept --output json"))
			switch store {
			case "catalog":
				follow(t, page, "opportunity listings import")
				require.Equal(t, int64(1),
					number(t, "catalog", "SELECT count(*) FROM listings WHERE id = 'maple-scribe' AND visibility = 'withdrawn'"))
			case "authquota":
				require.NotContains(t, succeed(t, "keys list --output json"), revoked.ID, "it was issued after the backup")
			case "billing":
				succeed(t, "billing reconcile")
			}
			seen(t, "authquota", sequence)
			seen(t, "catalog", sequence)
		})
	}
}
