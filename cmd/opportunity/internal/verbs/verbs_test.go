package verbs_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
)

// verb executes a command line against an admin listener.
func verb(t *testing.T, adminURL, stdin string, args ...string) (out, errs string, err error) {
	t.Helper()
	return verbFrom(t, adminURL, strings.NewReader(stdin), args...)
}

// verbFrom is verb with any standard input.
func verbFrom(t *testing.T, adminURL string, stdin io.Reader, args ...string) (out, errs string, err error) {
	t.Helper()
	t.Setenv("OPPORTUNITY_OPERATOR_TOKEN", token)
	t.Setenv("OPPORTUNITY_ACTOR", "ann")
	root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(verbs.Commands()...)
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetIn(stdin)
	root.SetArgs(append(args, "--admin-url", adminURL))
	err = root.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

const nowhere = "http://127.0.0.1:1"

func TestLintNeedsNoAPI(t *testing.T) {
	out, _, err := verb(t, nowhere, string(listingfile.Example), "listings", "lint", "-")
	require.NoError(t, err)
	require.Equal(t, "1 listings, no problems\n", out)

	bad := string(listingfile.Example) + strings.Replace(strings.SplitN(string(listingfile.Example), "\n", 2)[1],
		`"online"`, `"offline"`, 1) +
		strings.Repeat("{}\n", api.MaxReported)
	out, errs, err := verb(t, nowhere, bad, "listings", "lint", "-")
	require.Error(t, err)
	require.Empty(t, out)
	require.Contains(t, errs,
		"category: must be one of online, sell, local, host; \"\" is none (200 lines: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, ...)\n")
	require.Contains(t, errs, "line 3 (id maple-transcripts): id: is on line 2 already\n")
	require.Contains(t, errs, "company.name: must not be empty (200 lines: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, ...)\n")

	out, _, err = verb(t, nowhere, bad, "listings", "lint", "-", "--output", "json")
	require.Error(t, err)
	var report struct {
		Valid    bool
		Listings int
		Rejected []struct{ Line int } `json:"refused"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.False(t, report.Valid)
	require.Len(t, report.Rejected, 201)

	_, _, err = verb(t, nowhere, "", "listings", "lint", filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}

func TestEventsLintNeedsNoAPI(t *testing.T) {
	right := apitest.Line(apitest.Verified("a", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))) + "\n"
	out, _, err := verb(t, nowhere, right, "events", "lint", "-")
	require.NoError(t, err)
	require.Equal(t, "1 events, no problems\n", out)

	thin := right + `{"slug":"a","checkedAt":"2026-01-02T03:04:05Z","checkType":"review","outcome":"verified"}`
	_, errs, err := verb(t, nowhere, thin, "events", "lint", "-")
	require.ErrorContains(t, err, "an append would reject the file")
	require.Contains(t, errs, "line 2 (id a): sourceUrls: a verified review needs at least one source URL\n")
	out, _, err = verb(t, nowhere, thin, "events", "lint", "-", "--output", "json")
	require.Error(t, err)
	require.Contains(t, out, `"events":1`)

	closed := `{"slug":"a","checkedAt":"2026-01-02T03:04:05Z","checkType":"review","outcome":"closed","facts":` +
		apitest.WholeFacts(`{"applicationStatus":"open"}`) + `}`
	out, errs, err = verb(t, nowhere, closed, "events", "lint", "-")
	require.NoError(t, err)
	require.Equal(t, "1 events, no problems\n", out)
	require.Equal(t, "line 1 (id a): facts.applicationStatus: is recorded as closed, like the outcome\n", errs)
}

func TestSchemaIsPrinted(t *testing.T) {
	out, _, err := verb(t, nowhere, "", "listings", "schema")
	require.NoError(t, err)
	require.Equal(t, string(listingfile.Schema), out)
	out, _, err = verb(t, nowhere, "", "listings", "schema", "--example")
	require.NoError(t, err)
	require.Equal(t, string(listingfile.Example), out)
}

func TestDryRun(t *testing.T) {
	answer := `{"dryRun":true,"created":1,"updated":1,"unchanged":3,"published":1,"needsReview":1,"neverReviewed":1,"keptWithdrawn":["x","y"],"changes":[
		{"id":"b","change":"created","published":true,"fields":[]},
		{"id":"a","change":"updated","needsReview":true,"fields":[{"field":"startingCost","old":"None","new":"` + strings.Repeat("é", 80) + `"},
			{"field":"facts.remote","old":null,"new":true}]}],"refused":[],"omitted":0}`
	c, sent := admin(t, http.StatusOK, answer)
	out, _, err := verb(t, c.URL, "{}", "listings", "import", "--dry-run", "-")
	require.NoError(t, err)
	require.Equal(t, "POST /operator/v1/listings/import?dryRun=true ann {}", sent.String())
	require.Equal(t, `+ b  published
~ a  turns needs-review
    startingCost: "None" -> "`+strings.Repeat("é", 66)+`...
    facts.remote: null -> true
would create 1, update 1, leave 3 unchanged; publish 1; turn 1 needs-review
of those to publish, 1 never reviewed
2 stay withdrawn although the file has them as published: x, y
publish them again with: opportunity listings publish ID...
nothing was changed
`, out)
	out, _, err = verb(t, c.URL, "{}", "listings", "import", "--dry-run", "-", "--output", "json")
	require.NoError(t, err)
	require.JSONEq(t, answer, out)

	c, _ = admin(t, http.StatusOK,
		`{"dryRun":true,"refused":[{"line":2,"id":"x","problems":[{"path":"kind","message":"is not a known field"}]}]}`)
	_, errs, err := verb(t, c.URL, "{}", "listings", "import", "--dry-run", "-")
	require.ErrorContains(t, err, "nothing was changed")
	require.Equal(t, "line 2 (id x): kind: is not a known field\n", errs)
}

func TestClosedAccountIsShownAsClosed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"acc_0199a1c26f0e7a51b0a71d1f5a3b9c55","status":"closed","tier":"free","person":{"closedAt":"2026-11-20T09:00:00Z"}}`))
	}))
	t.Cleanup(server.Close)
	out, _, err := verb(t, server.URL, "", "accounts", "show", "acc_0199a1c26f0e7a51b0a71d1f5a3b9c55")
	require.NoError(t, err)
	require.Regexp(t, `Status +closed\n`, out)
	require.NotContains(t, out, "active")
}

// Names come from files of others: they must not control the terminal, break a table or forge its
// lines.
func TestControlCharactersAreEscaped(t *testing.T) {
	name := "A\x1b[2J\r\n\tB\u009b\u202e"
	text, err := json.Marshal(name)
	require.NoError(t, err)
	listing := `{"id":"a","company":{"name":` + string(text) + `,"website":"https://a.example/"},"summary":` +
		string(text) + `}`
	for line, response := range map[string]string{
		"listings list": `{"listings":[{"id":"a","company":` + string(text) + `,"updatedAt":"2026-11-20T09:00:00Z"}]}`,
		"listings show a": `{"listing":` + listing + `,"record":{"id":"a","facts":{"languages":[` + string(text) + `]}},
			"changes":[{"at":"2026-11-20T08:00:00Z","actor":` + string(text) + `}]}`,
		"listings import --dry-run -": `{"dryRun":true,"changes":[{"id":"a","change":"updated","fields":[{"field":"summary","old":null,"new":` + string(text) + `}]}]}`,
		"listings import -": `{"applied":false,"refused":[{"line":1,"id":"a","problems":[{"message":` +
			string(text) + `}]}]}`,
		"reviews due": `{"records":[{"id":"a","reasons":[{"why":"review","at":"2026-11-18T09:30:00Z","note":` + string(text) +
			`}]}]}`,
		"history show a": `{"slug":"a","facts":{"requirements":[` + string(text) +
			`]},"events":[{"id":"e","note":` + string(text) + `,"actor":` + string(text) + `}]}`,
		"keys list":          `{"keys":[{"id":"key_1","useCase":` + string(text) + `}]}`,
		"keys requests":      `{"requests":[{"id":"req_1","name":` + string(text) + `}]}`,
		"keys approve req_1": `{"id":"req_1","decidedBy":` + string(text) + `,"decidedAt":"2026-11-20T10:00:00Z"}`,
		"keys import -":      `{"applied":true,"warnings":[` + string(text) + `]}`,
		"accounts list":      `{"accounts":[{"id":"acc_1","email":` + string(text) + `}]}`,
		"accounts show acc_1": `{"id":"acc_1","person":{"email":` + string(text) + `},"keys":[{"id":"key_1","name":` +
			string(text) + `}]}`,
		"audit": `{"entries":[{"id":1,"at":"2026-11-20T10:00:00Z","actor":` + string(text) +
			`,"detail":{"name":` + string(text) + `}}]}`,
	} {
		for _, output := range []string{"text", "json"} {
			c, _ := admin(t, http.StatusOK, response)
			out, errs, _ := verb(t, c.URL, "{}", append(strings.Fields(line), "--output", output)...)
			require.NotContains(t, out+errs, "\x1b", line)
			require.NotContains(t, out+errs, "\u009b", line)
			require.NotContains(t, out+errs, "\u202e", line)
			if strings.HasSuffix(line, "list") && output == "text" {
				require.NotContains(t, out, "\r", line)
				require.Equal(t, 2, strings.Count(out, "\n"), "%s must print a line for each entry", line)
			}
			require.Contains(t, out+errs, `A\u001b[2J`, line)
			if output == "json" {
				require.JSONEq(t, response, out, "escapes must not change the value")
			}
		}
	}
}
