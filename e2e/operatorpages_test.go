package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
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
	files := storetest.Must(filepath.Glob("../docs/operators/*.md"))(t)
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

// kubectl is a program that sends its arguments, and its input with -i, to a test.
const kubectl = `#!/usr/bin/env bash
set -euo pipefail
case "$1 $2" in
"exec -i") curl --silent --show-error --fail-with-body --data-binary @- --header "Arguments: $*" "$TEST_URL" ;;
*) curl --silent --show-error --fail-with-body --header "Arguments: $*" "$TEST_URL" ;;
esac
`

// namespace is a stack whose services an operator controls with kubectl.
type namespace struct {
	*stack

	t      *testing.T
	folder string // the operator's working directory
	env    []string
	page   string
}

// newNamespace starts a stack whose services have schemas of one database.
func newNamespace(t *testing.T, page string) *namespace {
	t.Helper()
	database := storetest.Postgres(t)
	schemas := []string{"catalog", "history", "authquota", "billing"}
	s := newStackOn(t, parts{billing: true, database: func() string {
		u := storetest.Must(url.Parse(database))(t)
		out, err := exec.CommandContext(t.Context(), "psql", database, "-c", "CREATE SCHEMA "+schemas[0]).CombinedOutput()
		require.NoError(t, err, "%s", out)
		q := u.Query()
		q.Set("search_path", schemas[0])
		u.RawQuery, schemas = q.Encode(), schemas[1:]
		return u.String()
	}}, generous, fmt.Sprintf("OPPORTUNITY_HISTORY_SIGNING_KEY=%064d", 1))
	n := &namespace{stack: s, t: t, folder: t.TempDir(), page: text(t, page)}
	control := httptest.NewServer(n)
	t.Cleanup(control.Close)
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "kubectl"), []byte(kubectl), 0o700)) //nolint:gosec // a program
	require.NoError(t, os.Symlink(program(t, "opportunity"), filepath.Join(bin, "opportunity")))
	n.env = clean(append(slices.Clone(s.token), "OPPORTUNITY_ADMIN_URL="+s.adminURL, "ADMIN_URL="+database,
		"TEST_URL="+control.URL,
		"PATH="+bin+":"+os.Getenv("PATH"))...)
	return n
}

// ServeHTTP does what kubectl would do.
func (n *namespace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	args := strings.Fields(r.Header.Get("Arguments"))
	verb, args := args[0], slices.DeleteFunc(args[1:], func(arg string) bool { return arg == "-i" || arg == "--" })
	service := strings.TrimPrefix(args[0], "deployment/opportunity-")
	switch {
	case verb == "scale" && args[1] == "--replicas=0":
		n.process(n.t, service).kill()
	case verb == "scale":
		n.restart(n.t, service)
	case verb == "exec" && args[1] == "/"+service:
		in, _ := io.ReadAll(r.Body) // of a local connection
		out, errs, code := run(n.t, n.settings[service], string(in), program(n.t, service), args[2:]...)
		if code != 0 {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, out+errs)
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

// block returns the block of commands of the page that begins with first.
func (n *namespace) block(first string) string {
	n.t.Helper()
	_, rest, found := strings.Cut(strings.ReplaceAll(n.page, "\n   ", "\n"), "```sh\n"+first)
	require.True(n.t, found, "no block begins with %s", first)
	block, _, _ := strings.Cut(first+rest, "```")
	return block
}

// succeeds runs a block of the page as an operator does, until it succeeds, and returns the output
// of all attempts.
func (n *namespace) succeeds(first string) string {
	n.t.Helper()
	block, out := n.block(first), ""
	eventually(n.t, block+" succeeds", func() bool {
		cmd := exec.CommandContext(n.t.Context(), "bash", "-euo", "pipefail", "-c", block) //nolint:gosec // a page of this repository
		cmd.Dir, cmd.Env = n.folder, n.env
		all, err := cmd.CombinedOutput()
		out += string(all)
		if err != nil {
			n.t.Logf("%s%s", block, out)
		}
		return err == nil
	})
	return out
}

// TestBackupPageWithPostgres follows docs/operators/backup.md: all databases are restored to a
// backup while gateways run, and the loss is accepted. A revoked key stays revoked, a key without
// changes works, and no purchase is lost.
func TestBackupPageWithPostgres(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "../docs/operators/backup.md")
	n.fill(t)
	revoked, reader, bought := n.issue(t, api.Commercial), n.issue(t, api.Commercial), n.issue(t, api.Free)
	n.succeeds("for service in catalog history authquota billing; do\n  pg_dump")

	n.verb(t, "", "keys", "revoke", revoked.ID)
	require.NoError(t, n.buy(t.Context(), bought.Account))
	n.hasPlan(t, bought)
	before := n.eventCount(t, reader.Key)
	n.verb(t, linkCheck("maple-scribe", "n"), "events", "append", "-")
	n.verb(t, "", "listings", "publish", "--yes", "prairie-code")
	n.verb(t, "", "listings", "withdraw", "prairie-code", "--reason", "test")
	n.awaitEvents(t, reader.Key, before+1)
	n.changesAreSeen(t)

	n.succeeds("for service in catalog history authquota billing; do kubectl scale")
	for _, service := range n.services {
		eventually(t, service+" has stopped", func() bool { return n.isSetBack(t, service) })
	}
	said := n.succeeds("for service in history catalog billing authquota; do\n  kubectl exec")
	require.Equal(t, 4, strings.Count(said, "a generation begins"), said)
	require.Contains(t, said, "2 accounts may have lost changes", "the revoked key and the purchase")
	n.ready(t)
	require.Contains(t, n.succeeds("opportunity listings import listings.jsonl\nopportunity status"), "everything matches")

	require.Equal(t, string(problem.RevokedAPIKey),
		get(t, n.url, revoked.Key, listPath).code())
	n.awaitEvents(t, reader.Key, before) // without the lost one
}
