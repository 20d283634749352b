package verbs_test

import (
	"bytes"
	"encoding/json"
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
	t.Setenv("OPPORTUNITY_OPERATOR_TOKEN", token)
	t.Setenv("OPPORTUNITY_ACTOR", "ann")
	root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(verbs.Commands()...)
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append(args, "--admin-url", adminURL))
	err = root.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

const nowhere = "http://127.0.0.1:1"

func TestLintNeedsNoAPI(t *testing.T) {
	out, _, err := verb(t, nowhere, string(listingfile.Example), "listings", "lint", "-")
	require.NoError(t, err)
	require.Equal(t, "1 listings, no problems\n", out)

	bad := string(listingfile.Example) + strings.Replace(strings.SplitN(string(listingfile.Example), "\n", 2)[1], `"online"`, `"offline"`, 1) +
		strings.Repeat("{}\n", api.MaxReported)
	out, errs, err := verb(t, nowhere, bad, "listings", "lint", "-")
	require.Error(t, err)
	require.Empty(t, out)
	require.Contains(t, errs, "category: must be one of online, sell, local, host (201 lines: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, ...)\n")
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

	c, _ = admin(t, http.StatusOK, `{"dryRun":true,"refused":[{"line":2,"id":"x","problems":["kind: is not a known field"]}]}`)
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
