package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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

// rejection is the body of an error of the service about a part of the request.
func rejection(path, code, message string) string {
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

// TestExitCodes has the exit code of a command and the code of its JSON error.
func TestExitCodes(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	require.NoError(t, os.WriteFile(broken, []byte("{}\n"), 0o600))
	rejected := `{"applied":false,"refused":[{"line":1,"problems":[{"path":"id","message":"must not be empty"}]}]}`
	for line, c := range map[string]struct {
		status int
		body   string
		code   string
		exit   int
	}{
		"": {}, "help keys": {}, "keys issue --help": {}, "version": {}, "--version": {}, "completion bash": {},
		"keys revoke a": {200, `{}`, "", success},
		"keys revoke b": {404, rejection("key", "not_found", "There is no key with this id."), "not_found", failure},
		"keys issue --tier free --use-case x": {403, rejection("", "account_suspended", "The account is closed."),
			"account_suspended", failure},
		"accounts list":                     {503, rejection("", "service_unavailable", "Retry."), "service_unavailable", failure},
		"events append -":                   {200, rejected, "file_rejected", failure},
		"listings lint " + broken:           {0, "", "file_rejected", failure},
		"listings lint " + broken + ".none": {0, "", "failed", failure},
		"status":                            {503, `{"status":"unready","missing":["redis"]}`, "failed", failure},
		"keys isue":                         {exit: usageError}, "version --loud": {exit: usageError},
		"reviews due --within x": {exit: usageError}, "keys decline a": {exit: usageError},
		"history show a --at yesterday": {400, rejection("at", "invalid_parameter", "must be a day"), "", usageError},
		"keys issue --tier free --use-case x --expires-in 400d": {400,
			rejection("expiresIn", "invalid_parameter", "must be at most 365d"), "", usageError},
		"reviews record a --outcome closed --set salary=1": {200, `{"record":{"id":"a"}}`, "", usageError},
	} {
		t.Run(line, func(t *testing.T) {
			service(t, max(c.status, 200), "application/json", c.body)
			args := append([]string{}, strings.Fields(line)...)
			exit, _, errs := opportunity(t, args...)
			require.Equal(t, c.exit, exit, errs)
			require.Equal(t, exit == success, errs == "", errs)
			if exit == failure {
				_, _, errs = opportunity(t, append(args, "--output", "json")...)
				require.Contains(t, errs, `{"error":{"code":"`+c.code+`","message":"`)
				require.Contains(t, errs, `"exitCode":1}}`+"\n")
			}
		})
	}
	_, flag, _ := opportunity(t, "--version")
	_, verb, _ := opportunity(t, "version")
	require.Equal(t, verb, flag)
	require.Contains(t, verb, telemetry.ReadBuild().Go)
	_, out, _ := opportunity(t)
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
	service(t, 404, "application/json", rejection("key", "not_found", "There is no key with this id."))
	_, out, errs := opportunity(t, "keys", "revoke", "key_1", "--output", "json")
	require.Empty(t, out)
	require.JSONEq(t, `{"error":{"code":"not_found","message":"unknown key \"key_1\": see \"opportunity keys list\"","status":404,"exitCode":1}}`, errs)

	_, out, errs = opportunity(t, "keys", "revoke", "--nope", "--output=json")
	require.Empty(t, out)
	require.JSONEq(t, `{"error":{"code":"usage_error","message":"unknown flag --nope","exitCode":2}}`, errs)

	rejected := `{"applied":false,"refused":[{"line":1,"id":"a","problems":[{"path":"id","code":"unknown_listing","message":"there is no such listing"}]}]}`
	service(t, 200, "application/json", rejected)
	_, out, errs = opportunity(t, "listings", "withdraw", "a", "--reason", "x", "--output", "json")
	require.JSONEq(t, rejected, out, "the report keeps the form of the service")
	require.JSONEq(t, `{"error":{"code":"file_rejected","message":"nothing was changed","exitCode":1}}`, errs)

	_, _, errs = opportunity(t, "keys", "revoke", "--", "--output=json")
	require.NotContains(t, errs, "{", "an argument")
}

// TestExamplesAreRight parses every example of the help texts, also those after a pipe.
func TestExamplesAreRight(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			walk(child)
		}
		if !c.HasAvailableSubCommands() && c.Parent().Name() != "completion" && c.Name() != "help" {
			require.NotEmpty(t, c.Example, c.CommandPath())
		}
		for _, command := range regexp.MustCompile(`(?m)(?:^  |\| )opportunity ([^|\n]*)`).FindAllStringSubmatch(c.Example, -1) {
			root := newRoot(nil, io.Discard, io.Discard)
			idle(root)
			root.SetArgs(words(command[1]))
			require.NoError(t, root.Execute(), command[0])
		}
		own := strings.Contains(c.Example, c.CommandPath())
		require.True(t, own || c.Example == "", "no example of %s has it", c.CommandPath())
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
