package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/telemetry"
)

// opportunity executes a command line.
func opportunity(t *testing.T, args ...string) (exit int, out, errs string) {
	t.Helper()
	t.Setenv("OPPORTUNITY_ACTOR", "ann")
	var o, e bytes.Buffer
	exit = run(t.Context(), args, strings.NewReader("{}"), &o, &e)
	return exit, o.String(), e.String()
}

// service starts an admin listener that returns the same response to every request.
func service(t *testing.T, status int, contentType, body string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	t.Setenv("OPPORTUNITY_ADMIN_URL", s.URL)
	t.Setenv("OPPORTUNITY_OPERATOR_TOKEN", "operator-token-that-nobody-may-see")
}

func refusal(code, message string) string { return invalid("", code, message) }

func invalid(path, code, message string) string {
	text, _ := json.Marshal(api.OperatorError{Error: api.Problem{Path: path, Code: code, Message: message}})
	return string(text)
}

func TestUsageErrorsSpeakOfArgumentsAndFlags(t *testing.T) {
	service(t, http.StatusTeapot, "text/plain", "no usage error gets here")
	for line, want := range map[string]string{
		"nope":                         `unknown command "nope"`,
		"listing":                      `unknown command "listing": did you mean listings?`,
		"listings imprt x":             `unknown command "listings imprt": did you mean import?`,
		"help nope":                    `unknown command "nope"`,
		"help keys isue":               `unknown command "keys isue": did you mean issue?`,
		"completion bahs":              `unknown command "completion bahs": did you mean bash?`,
		"events":                       `missing command: use opportunity events append or lint`,
		"accounts grant a":             `missing argument TIER: usage: opportunity accounts grant ID TIER [flags]`,
		"keys revoke":                  `missing argument ID: usage: opportunity keys revoke ID [flags]`,
		"keys revoke a b":              `unexpected argument "b": usage: opportunity keys revoke ID [flags]`,
		"up now":                       `unexpected argument "now": usage: opportunity up [flags]`,
		"accounts grant a gold":        `unknown tier "gold": use free, developer or commercial`,
		"keys decline a":               `missing --reason: usage: opportunity keys decline ID --reason TEXT [flags]`,
		"keys list --limt 3":           `unknown flag --limt: did you mean --limit?`,
		"keys list -l 3":               `unknown flag -l`,
		"keys list --limit":            `--limit needs a value: --limit INT`,
		"keys list --limit x":          `invalid --limit "x": use a whole number`,
		"keys list --limit 0x10":       `invalid --limit "0x10": use a whole number`,
		"listings list --limit 1_0":    `invalid --limit "1_0": use a whole number`,
		"audit --before -1":            `invalid --before "-1": use a whole number`,
		"keys requests --all=perhaps":  `invalid --all "perhaps": use true or false`,
		"keys list --output xml":       `invalid --output "xml": use text or json`,
		"reviews due --output xml":     `invalid --output "xml": use table, text, csv or json`,
		"reviews due --within soon":    `invalid --within "soon": use a duration such as 30d, 12h or 90m`,
		"up --seed all":                `invalid --seed "all": use sample or none`,
		"up --listen here":             `invalid --listen "here": use HOST:PORT, such as 127.0.0.1:8080`,
		"desk --listen here":           `invalid --listen "here": use HOST:PORT, such as 127.0.0.1:8082`,
		"reviews record a":             `missing --outcome or --event: to review a listing fact by fact, use the curation desk`,
		"recover":                      `missing argument SERVICE: usage: opportunity recover SERVICE --accept | --current [flags]`,
		"recover gateway --accept":     `unknown service "gateway": use authquota, billing, catalog or history`,
		"recover billing":              `use either --accept or --current`,
		"listings import - --format x": `invalid --format "x": use jsonl or csv`,
		"keys list --admin-url here":   `invalid --admin-url "here": use an http or https URL such as http://127.0.0.1:8081`,
		"status --admin-url here":      `invalid --admin-url "here": use an http or https URL such as http://127.0.0.1:8081`,
		"audit --since lately":         `invalid --since "lately": use a duration such as 7d or 90m, a date such as 2026-11-20, or a time such as 2026-11-20T09:30:00Z`,
		"keys issue --use-case x --tier free --expires-in 30x": `invalid --expires-in "30x": use a duration such as 30d, 12h or 90m`,
		"keys issue --use-case x --tier gold":                  `invalid --tier "gold": use free, developer or commercial`,
		"reviews record a --event x --outcome closed":          `--event and --outcome cannot be used together`,
	} {
		exit, out, errs := opportunity(t, strings.Fields(line)...)
		first, second, _ := strings.Cut(errs, "\n")
		require.Equal(t, "opportunity: "+want, first)
		require.Regexp(t, `^See "opportunity.* --help"\.\n$`, second, line)
		require.Equal(t, usageError, exit, line)
		require.Empty(t, out, line)
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.jsonl")
	require.NoError(t, os.WriteFile(broken, []byte("{}\n"), 0o600))
	for name, c := range map[string]struct {
		status int
		body   string
		args   string
		exit   int
	}{
		"no command":   {exit: success},
		"help":         {args: "help keys", exit: success},
		"flag help":    {args: "keys issue --help", exit: success},
		"version":      {args: "version", exit: success},
		"version flag": {args: "--version", exit: success},
		"completion":   {args: "completion bash", exit: success},
		"done":         {200, `{}`, "keys revoke a", success},
		"not found":    {404, invalid("key", "not_found", "There is no key with this id."), "keys revoke a", failure},
		"rejected": {403, refusal("account_suspended", "The account is closed."), "keys issue --tier free --use-case x",
			failure},
		"unavailable": {503, refusal("service_unavailable", "The service is temporarily unavailable."), "accounts list",
			failure},
		"file rejected": {200,
			`{"applied":false,"refused":[{"line":1,"problems":[{"path":"id","message":"must not be empty"}]}]}`,
			"events append -", failure},
		"lint":          {args: "listings lint " + broken, exit: failure},
		"no file":       {args: "listings lint " + broken + ".none", exit: failure},
		"not ready":     {503, `{"status":"unready","missing":["redis"]}`, "status", failure},
		"unknown verb":  {args: "keys isue", exit: usageError},
		"unknown flag":  {args: "version --loud", exit: usageError},
		"invalid value": {args: "reviews due --within x", exit: usageError},
		"invalid time": {400, invalid("at", "invalid_parameter", "must be a UTC day"), "history show a --at yesterday",
			usageError},
		"invalid life": {400, invalid("expiresIn", "invalid_parameter", "must be at most 365d"),
			"keys issue --tier free --use-case x --expires-in 400d", usageError},
		"invalid fact":   {200, `{"record":{"id":"a"}}`, "reviews record a --outcome closed --set salary=1", usageError},
		"missing option": {args: "keys decline a", exit: usageError},
	} {
		t.Run(name, func(t *testing.T) {
			service(t, max(c.status, 200), "application/json", c.body)
			exit, out, errs := opportunity(t, strings.Fields(c.args)...)
			require.Equal(t, c.exit, exit, errs)
			require.Equal(t, exit == success, errs == "", errs)
			if c.args == "" || exit == usageError {
				return
			}
			if args := append(strings.Fields(c.args), "--output", "json"); exit == failure { // the same with JSON errors
				exit, _, errs = opportunity(t, args...)
				require.Equal(t, c.exit, exit)
				require.Equal(t, 1, strings.Count(errs, "\n"), errs)
				var e struct {
					Error struct {
						Code, Message    string
						Status, ExitCode int
					}
				}
				require.NoError(t, json.Unmarshal([]byte(errs), &e), errs)
				require.Equal(t, c.exit, e.Error.ExitCode)
				require.NotEmpty(t, e.Error.Message)
				require.NotEmpty(t, e.Error.Code)
			}
			_ = out
		})
	}
	exit, out, help := opportunity(t)
	require.Equal(t, success, exit)
	require.Empty(t, help)
	for _, s := range []string{"0  success", "1  failure", "2  usage error"} {
		require.Contains(t, out, s)
	}
}

// Reading is not recorded, so it needs no name.
func TestChangesWithoutANameAreRefused(t *testing.T) {
	dir := t.TempDir()
	service(t, http.StatusOK, "application/json", `{}`)
	for _, name := range []string{"OPPORTUNITY_ACTOR", "USER", "LOGNAME"} {
		t.Setenv(name, "")
	}
	for line, want := range map[string]int{
		"keys list": success, "keys revoke a": failure, "listings import -": failure, "billing reconcile": failure,
		"recover billing --accept --data-dir " + dir: failure,
	} {
		var out, errs bytes.Buffer
		require.Equal(t, want, run(t.Context(), strings.Fields(line), strings.NewReader("{}"), &out, &errs), line)
		require.Equal(t, want == failure, strings.Contains(errs.String(), "Set OPPORTUNITY_ACTOR to your name"), line)
	}
}

func TestErrorsAreJSON(t *testing.T) {
	service(t, 404, "application/json", invalid("key", "not_found", "There is no key with this id."))
	_, out, errs := opportunity(t, "keys", "revoke", "key_1", "--output", "json")
	require.Empty(t, out)
	require.JSONEq(t, `{"error":{"code":"not_found","message":"unknown key \"key_1\": see \"opportunity keys list\"","status":404,"exitCode":1}}`, errs)

	_, out, errs = opportunity(t, "keys", "revoke", "--nope", "--output=json")
	require.Empty(t, out)
	require.JSONEq(t, `{"error":{"code":"usage_error","message":"unknown flag --nope","exitCode":2}}`, errs)

	t.Setenv("OPPORTUNITY_ADMIN_URL", "http://127.0.0.1:1")
	_, out, errs = opportunity(t, "status", "--output", "json")
	require.Empty(t, out)
	require.Contains(t, errs,
		`{"error":{"code":"unreachable","message":"cannot reach http://127.0.0.1:1: connection refused.`)

	rejected := `{"applied":false,"refused":[{"line":1,"id":"a","problems":[{"path":"id","code":"unknown_listing","message":"there is no such listing"}]}]}`
	service(t, 200, "application/json", rejected)
	_, out, errs = opportunity(t, "listings", "withdraw", "a", "--reason", "x", "--output", "json")
	require.JSONEq(t, rejected, out, "the report keeps the form of the service")
	require.JSONEq(t, `{"error":{"code":"file_rejected","message":"nothing was changed","exitCode":1}}`, errs)

	_, _, errs = opportunity(t, "keys", "revoke", "--", "--output=json")
	require.NotContains(t, errs, "{", "an argument")
}

// TestExamplesAreRight parses every example of the help texts.
func TestExamplesAreRight(t *testing.T) {
	t.Setenv("OPPORTUNITY_ADMIN_URL", "http://127.0.0.1:8081")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasAvailableSubCommands() {
			for _, child := range c.Commands() {
				walk(child)
			}
		} else if c.Parent().Name() != "completion" && c.Name() != "help" {
			require.NotEmpty(t, c.Example, c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			for _, command := range strings.Split(line, " | ") {
				words := shellWords(t, command)
				if len(words) == 0 {
					continue
				}
				require.Equal(t, "opportunity", words[0], line)
				root := newRoot(nil, io.Discard, io.Discard)
				idle(root)
				root.SetArgs(words[1:])
				found, err := root.ExecuteC()
				require.NoError(t, err, line)
				require.True(t, c == found || found.CommandPath() == c.CommandPath() || !c.HasParent() ||
					len(strings.Split(line, " | ")) > 1,
					"%q is an example of %s", line, c.CommandPath())
			}
		}
	}
	walk(newRoot(nil, io.Discard, io.Discard))
}

// idle takes away the work of all commands and leaves the checks.
func idle(c *cobra.Command) {
	if c.HasParent() {
		c.RunE = func(*cobra.Command, []string) error { return nil }
	}
	for _, child := range c.Commands() {
		idle(child)
	}
}

// shellWords splits a line as a shell does, as far as the examples need it: quotes, redirections,
// and comments.
func shellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word := ""
		for line != "" && line[0] != ' ' {
			if quote := line[:1]; quote == `"` || quote == "'" {
				inside, rest, closed := strings.Cut(line[1:], quote)
				require.True(t, closed, line)
				word, line = word+inside, rest
				continue
			}
			word, line = word+line[:1], line[1:]
		}
		words = append(words, word)
	}
	return words
}

// TestUsageLinesAgreeWithChecks: the number of arguments is read from the usage line, so a check of
// a command accepts every number that the line allows.
func TestUsageLinesAgreeWithChecks(t *testing.T) {
	for use, want := range map[string][2]int{
		"list": {0, 0}, "show ID": {1, 1}, "grant ID TIER": {2, 2}, "import FILE|-": {1, 1}, "publish ID...|--all": {0, -1},
		"withdraw ID...": {1, -1},
		"issue --use-case TEXT --tier TIER | --account ID": {0, 0}, "decline ID --reason TEXT": {1, 1},
		"list [--limit N] [ID...]": {0, -1}, "show [ID]": {0, 1},
	} {
		_, least, most := arguments(use)
		require.Equal(t, want, [2]int{least, most}, use)
	}
}

func TestCompletion(t *testing.T) {
	service(t, 200, "application/json", `{"keys":[{"id":"key_1","status":"active"},{"id":"key_2","status":"revoked"}],
		"accounts":[{"id":"acc_1"}],"requests":[{"id":"req_1"}],"listings":[{"id":"maple"}]}`)
	for line, want := range map[string]string{
		"keys issue --tier |":        "free developer commercial",
		"keys list --output |":       "text json",
		"listings export --format |": "jsonl csv",
		"reviews due --output |":     "table text csv json",
		"up --seed |":                "sample none",
		"accounts grant acc |":       "free developer commercial",
		"reviews record --outcome |": "verified closed needs-review",
		"listings list --status |":   "verified unverified stale needs-review",
		"keys re|":                   "requests revoke",
		"keys revoke |":              "key_1",
		"keys approve |":             "req_1",
		"accounts show |":            "acc_1",
		"listings publish a |":       "maple",
		"recover |":                  "authquota billing catalog history",
		"history show |":             "maple",
		"history show a |":           "",
	} {
		words := strings.Fields(strings.ReplaceAll(line, " |", " ''"))
		last := strings.Trim(words[len(words)-1], "'|")
		exit, out, _ := opportunity(t, append([]string{"__completeNoDesc"}, append(words[:len(words)-1], last)...)...)
		require.Equal(t, success, exit)
		got, _, _ := strings.Cut(out, ":")
		require.Equal(t, want, strings.Join(strings.Fields(got), " "), line)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		exit, out, _ := opportunity(t, "completion", shell)
		require.Equal(t, success, exit)
		require.Contains(t, out, "opportunity", shell)
	}
}

func TestVersionFlagAndVerbPrintTheSame(t *testing.T) {
	_, flag, _ := opportunity(t, "--version")
	_, verb, _ := opportunity(t, "version")
	require.Equal(t, verb, flag)
	require.Contains(t, verb, telemetry.ReadBuild().Go)
}
