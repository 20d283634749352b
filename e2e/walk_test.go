package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

func generic(t testing.TB, text []byte) string {
	t.Helper()
	var doc any
	require.NoError(t, yaml.Unmarshal(text, &doc))
	return string(storetest.Must(json.Marshal(doc))(t))
}

// shownInREADME compares the console block of the README with what the first start printed, apart
// from addresses, folder and secrets.
func shownInREADME(t *testing.T, u upProcess) {
	t.Helper()
	_, block, found := strings.Cut(text(t, "../README.md"), "```console\n$ make run\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	eventually(t, "the first start has printed everything",
		func() bool { return strings.Contains(u.out.String(), "Ctrl-C") })
	secret := regexp.MustCompile(`oda_test_\w+|localhost:\d+/sign-in/once\?code=[\w-]+`)
	missedDeadline := regexp.MustCompile(`(?m)^\{.*i/o timeout.*\n`) // of a loop, on a machine with other work
	printed := strings.NewReplacer(u.url, "http://localhost:8080", u.adminURL, "http://127.0.0.1:8081", u.dir,
		"/home/you/opportunity/.opportunity").Replace(missedDeadline.ReplaceAllString(u.out.String(), ""))
	require.Equal(t, secret.ReplaceAllString(block, "SECRET"), secret.ReplaceAllString(printed, "SECRET"))
}

// TestQuickStart follows the README: start the API, run the printed curl command, and read every
// page and a history. TestRecordsAgree and TestFilters have the records and the free set.
func TestQuickStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir)
	shownInREADME(t, u)
	for _, tier := range api.Tiers {
		require.True(t, strings.HasPrefix(u.keys[tier.Tier], "oda_test_"), "%s", tier.Tier)
		require.Contains(t, u.out.String(), u.keys[tier.Tier])
	}

	line := regexp.MustCompile(`(?m)^ *curl .*$`).FindString(u.out.String())
	printed, err := exec.CommandContext(t.Context(), "sh", "-c", line+" --silent --fail-with-body").Output()
	require.NoError(t, err, "%s: %s", line, printed)
	first := storetest.Must(strict[api.OpportunityList](printed))(t)
	require.NotEmpty(t, first.Data)

	key := u.keys[api.Developer]
	all := list(t, u.url, key, listPath+"?limit=50")
	require.Greater(t, len(all), 60)
	for _, o := range all {
		require.Contains(t, o.Company.Name, "(sample)")
		require.Contains(t, o.Company.Website, ".example/")
	}
	require.NotEmpty(t, read[api.EventList](t, u.url, key, listPath+"/"+all[0].ID+"/history").Data)

	// only the owner can read secrets
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info := storetest.Must(entry.Info())(t)
		if path == dir || !entry.IsDir() && !strings.Contains(path, ".db") {
			require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", path, info.Mode())
		}
		return nil
	}))
	require.NotContains(t, u.out.String(), strings.TrimSpace(text(t, filepath.Join(dir, "operator-token"))))
}

// TestRestart checks that data, keys, today's counters and the token survive a restart, and that a
// second process on the same directory or port ends and says why.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	u := up(t, dir)
	before := list(t, u.url, u.keys[api.Commercial], listPath+"?limit=100")
	own := u.issue(t, api.Developer)
	for range 7 {
		get(t, u.url, own.Key, listPath)
	}
	for says, args := range map[string][]string{
		"in use by another process": {"--data-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
		" is in use": {"--data-dir", t.TempDir(), "--listen", strings.TrimPrefix(u.adminURL, "http://"),
			"--admin-listen", "127.0.0.1:0"},
	} {
		out, errs, code := run(t, nil, "", program(t, "opportunity"), append([]string{"up"}, args...)...)
		require.Equal(t, 1, code, errs)
		require.Contains(t, errs, says)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		require.Empty(t, out)
	}
	u.interrupt(t)
	require.Zero(t, u.wait(t), u.out.String())

	again := up(t, dir)
	require.Equal(t, u.keys, again.keys)
	require.Equal(t, before, list(t, again.url, again.keys[api.Commercial], listPath+"?limit=100"))
	require.Equal(t, 1000-8, get(t, again.url, own.Key, listPath).remaining(t))
}

// TestKilledFirstStart checks that the next start completes a first start that was killed at any
// point.
func TestKilledFirstStart(t *testing.T) {
	t.Parallel()
	for _, until := range []string{"operator-token", "seed.json", "demo-keys.json"} {
		t.Run(until, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			cut := start(t, nil, program(t, "opportunity"), "up", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
				"--data-dir", dir)
			eventually(t, until+" is there", func() bool {
				_, err := os.Stat(filepath.Join(dir, until))
				return err == nil
			})
			require.NoError(t, cut.cmd.Process.Kill())
			cut.wait(t)

			u := up(t, dir)
			require.Len(t, u.keys, len(api.Tiers))
			all := list(t, u.url, u.keys[api.Commercial], listPath+"?limit=100")
			require.Greater(t, len(all), 60)
			for _, o := range all { // nothing was appended twice
				if o.ID == "maple-scribe" {
					require.Equal(t, sampleEvents, o.Verification.HistoryCount)
				}
			}
			active := 0
			for line := range strings.Lines(u.verb(t, "", "keys", "list")) {
				if strings.Contains(line, "oda_test_") && strings.Contains(line, "active") {
					active++
				}
			}
			require.Equal(t, len(api.Tiers), active)
		})
	}
}

// TestSeedNone checks that --seed none starts empty, and that a later --seed sample does not change
// that.
func TestSeedNone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	u := upWith(t, dir, "none")
	require.Empty(t, list(t, u.url, u.keys[api.Commercial], listPath))
	u.interrupt(t)
	require.Zero(t, u.wait(t))
	again := up(t, dir)
	require.Empty(t, list(t, again.url, again.keys[api.Commercial], listPath))
}
