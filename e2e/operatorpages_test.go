package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// notAgainstUp has patterns of "PAGE: COMMAND" in docs/operators that cannot run against
// `opportunity up`, with the reason.
var notAgainstUp = []struct{ pattern, because string }{
	{`^one-machine`, "scripts/try-one-machine runs it on a new machine"},
	{`^backup`, "TestBackupPageOnOneMachine and TestBackupPageWithPostgres run it"},
	{`^(containers|kubernetes|upgrade)|: (kubectl|scripts/rotate-secret)`, "needs Docker, a cluster or a release"},
	{`^(witness|billing)|_(WITNESSES|ENDPOINT)=`, "needs a witness, a collector or Stripe"},
	{`^running|: opportunity (up|desk)|: (bin/)?history `, "serves until it is stopped, or needs Postgres"},
	{`completion`, "changes the shell of a person; TestCompletion runs each"},
	{`REQUEST|--before 4711|--against`, "needs a request, an entry or a checkpoint of that name"},
	{`data\.example\.com|api\.example`, "needs a public address"},
	{`reviews record|publish (--all|maple-transcripts$)|announce v2`,
		"asks a person, or needs files; package verbs tests it"},
	{`reset-authenticator`, "needs a person with an authenticator; package people tests it"},
}

const (
	olderKey = `{"sha256":"0000000000000000000000000000000000000000000000000000000000000007","prefix":"jb-",` +
		`"lastFour":"9x2Q","name":"a","useCase":"b","tier":"free","expiresAt":"%s"}`
	review = `{"slug":"maple-transcripts","checkType":"review","outcome":"needs-review",` +
		`"checkedAt":"2026-11-20T09:30:00Z","sourceUrls":["https://maple-transcripts.example/"],"note":"x"}`
)

// TestCommandsOfOperatorPagesRun runs every line of the sh blocks of docs/operators against
// `opportunity up`, in the order of each page.
func TestCommandsOfOperatorPagesRun(t *testing.T) {
	t.Parallel()
	u := up(t, filepath.Join(t.TempDir(), "data"), "OPPORTUNITY_LINK_CHECKS=false")
	dir := t.TempDir()
	bin := filepath.Dir(program(t, "opportunity"))
	shell := func(line string) (string, string, int) {
		return run(t, []string{
			"OPPORTUNITY_ADMIN_URL=" + u.adminURL, "OPPORTUNITY_DATA_DIR=" + u.dir, "PATH=" + bin + ":" + os.Getenv("PATH"),
		}, "", "bash", "-c", "cd "+dir+" && "+line)
	}
	key := u.issue(t, api.Developer)
	for _, prepare := range []string{
		"opportunity listings schema --example > platforms.jsonl",
		"tail -n 1 platforms.jsonl | sed s/maple-transcripts/prairie-market/g >> platforms.jsonl",
		"printf 'A paragraph.\\n' | tee v2.txt > terms.txt",
		"echo '" + fmt.Sprintf(olderKey, time.Now().UTC().AddDate(0, 1, 0).Format(time.RFC3339)) + "' > older.jsonl",
		`printf '%s\n' '` + review + `' > reviews.jsonl`,
	} {
		_, errs, code := shell(prepare)
		require.Zero(t, code, "%s: %s", prepare, errs)
	}
	files, err := filepath.Glob("../docs/operators/*.md")
	require.NoError(t, err)
	ran, used := 0, map[string]bool{}
	for _, file := range files {
		for _, block := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").FindAllStringSubmatch(text(t, file), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", "")) {
				line = strings.TrimSpace(line)
				if because := reasonNotToRun(filepath.Base(file) + ": " + line); because != "" {
					used[because] = true
					continue
				}
				line = strings.NewReplacer("ACCOUNT", key.Account, "revoke ID", "revoke "+key.ID).Replace(line)
				out, errs, code := shell(line)
				assert.Zero(t, code, "%s: %s: %s%s", file, line, out, errs)
				ran++
			}
		}
	}
	require.Len(t, used, len(notAgainstUp), "a reason that no command needs")
	require.GreaterOrEqual(t, ran, 35)
}

func reasonNotToRun(command string) string {
	for _, e := range notAgainstUp {
		if regexp.MustCompile(e.pattern).MatchString(command) {
			return e.because
		}
	}
	return ""
}
