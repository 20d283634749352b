package verbs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

// desk is an admin listener with one listing. It rejects the first appends, as many as rejects, and
// accepts later ones.
type desk struct {
	url      string
	appended chan string
	rejects  int
}

// sheetTime is the time of the desk's review sheet.
var sheetTime = time.Date(2026, 11, 20, 9, 0, 0, 123456000, time.UTC)

func newDesk(t *testing.T) *desk {
	t.Helper()
	yes := true
	reviewed := api.UnknownFacts()
	reviewed.Remote, reviewed.Languages = &yes, []string{"English"}
	reviewed.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.Eligible,
		ExcludedRegions: []string{"CA-QC"},
		SourceURLs:      []string{"https://a.example/regions"}}}
	reviewed.RiskIndicators = []api.RiskIndicator{{Code: "fees", Note: "5 CAD", SourceURL: "https://a.example/fees"}}
	reviewed.Complete()
	sheet := api.ReviewSheet{
		GeneratedAt: sheetTime, LastEventID: "e-9", Visibility: "published", Status: api.NeedsReview,
		ReviewedFacts: &reviewed,
		Record: api.Opportunity{ID: "a", Platform: api.Platform{Category: api.Online}, Facts: reviewed,
			Sources: []api.Source{{URL: "https://a.example/terms"}}},
		Evidence: api.Evidence{Quotes: []api.Quote{
			{Fact: "remote", SourceURL: "https://a.example/terms", Exact: "from home"},
			{Fact: "languages", SourceURL: "https://a.example/terms", Exact: "in English"},
			{Fact: "riskIndicators", SourceURL: "https://a.example/unused", Exact: "a fee"},
		}},
	}
	moved := sheet.Evidence.Quotes[0]
	moved.Prefix = "You work "
	sheet.Readings = []api.QuoteReading{{Quote: sheet.Evidence.Quotes[0], Finding: api.QuoteMoved, Moved: &moved}}
	d := &desk{appended: make(chan string, 9)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.Method + " " + r.URL.Path {
		case "GET /operator/v1/reviews/records/a":
			_ = json.NewEncoder(w).Encode(sheet)
		case "POST /operator/v1/reviews/records/a":
			var in api.ReviewSubmission
			if err := json.Unmarshal(body, &in); err != nil {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			review, _ := json.Marshal(in.Review) // was decoded
			d.appended <- string(review)
			if d.rejects--; d.rejects >= 0 {
				_, _ = io.WriteString(w,
					`{"applied":false,"refused":[{"line":1,"id":"a","problems":[{"path":"note","message":"not today"}]}]}`)
				return
			}
			_, _ = io.WriteString(w, `{"applied":true,"appended":1,"refused":[]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"code":"not_found","message":"There is no listing with this id."}}`)
		}
	}))
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

func TestReviewFromFlagsAndFiles(t *testing.T) {
	d := newDesk(t)
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "f.json")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	record := func(args ...string) (string, error) {
		out, errs, err := verb(t, d.url, "", append([]string{"reviews", "record", "a"}, args...)...)
		return out + errs, err
	}
	_, err := record("--outcome", "closed", "--note", "Gone.", "--source", "https://a.example", "--source",
		"https://b.example", "--checked-at", "2026-11-20T09:00:00Z")
	require.NoError(t, err)
	require.JSONEq(t, `{"slug":"a","checkedAt":"2026-11-20T09:00:00Z","checkType":"review","outcome":"closed","sourceUrls":["https://a.example","https://b.example"],"note":"Gone.","lastEventId":"e-9"}`, <-d.appended)
	_, err = record("--outcome", "verified", "--source", "https://a.example", "--facts",
		file(apitest.WholeFacts(`{"remote":true}`)))
	require.NoError(t, err)
	require.Contains(t, <-d.appended, `"checkedAt":"2026-11-20T09:00:00.123456Z"`, "the time of the sheet")
	_, err = record("--event", file(`{"outcome":"closed", "note":"x",
		"lastEventId":"e-7"}`))
	require.NoError(t, err)
	sent := <-d.appended
	require.Contains(t, sent, `"outcome":"closed"`)
	require.Contains(t, sent, `"note":"x","lastEventId":"e-7"}`)
	require.Contains(t, sent, `"slug":"a"`)
	require.NotContains(t, sent, "\n")
	require.NotContains(t, sent, "e-9")

	_, err = record("--outcome", "closed", "--closed", "ended")
	require.NoError(t, err)
	require.Contains(t, <-d.appended, `"evidence":{"quotes":[],"gone":[],"unopened":[],"closed":"ended"}`)

	d.rejects = 1
	text, err := record("--outcome", "closed")
	require.ErrorContains(t, err, "nothing was changed")
	require.Contains(t, text, "a: note: not today")
	<-d.appended
	for _, args := range [][]string{
		{"--event", file(`{"slug":"b"}`)}, {"--event", file(`{"checkType":"application-link"}`)}, {"--event", file(`[]`)},
		{"--event", file(`{} {}`)},
		{"--event", file(`{"outcome":"closed","outcome":"closed"}`)}, {"--outcome", "closed", "--set", "pay"},
		{"--outcome", "closed", "--set", "salary=1"}, {"--outcome", "verified", "--closed", "ended"},
		{"--outcome", "closed", "--closed", "gone"},
		{"--set", "remote=true"}, {"--event", "/no/such/file"}, {"--note", "x"},
		{"--outcome", "closed", "--checked-at", "yesterday"}, {"--event", file(`{}`), "--outcome", "closed"}, {},
	} {
		_, err := record(args...)
		require.Error(t, err, args)
	}
	require.Empty(t, d.appended)
}

func TestReviewWithoutEvidenceIsNotSent(t *testing.T) {
	d := newDesk(t)
	partial := filepath.Join(t.TempDir(), "facts.json")
	require.NoError(t, os.WriteFile(partial, []byte(`{"remote":true}`), 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--source", "example.com"}, "a: sourceUrls[0]: "},
		{nil, fmt.Sprintf("a: facts: a verified review needs all %d facts", len(api.FactNames))},
		{nil, "a: sourceUrls: a verified review needs at least one source URL"},
		{[]string{"--set", "remote=true"}, "a: sourceUrls: a verified review needs at least one source URL"},
		{[]string{"--source", "https://a.example", "--facts", partial}, "a: facts: countryEligibility, degreeRequired, "},
		{[]string{"--source", "https://a.example", "--set", "remote=ture"},
			"a: facts.remote: must be true or false; it is \"ture\""},
		{[]string{"--source", "https://a.example", "--set", `countryEligibility=[{"country":"US","status":"ineligible"}]`},
			"a: facts.countryEligibility[0].sourceUrls: an ineligible country needs at least one source URL"},
	} {
		_, errs, err := verb(t, d.url, "", append([]string{"reviews", "record", "a", "--outcome", "verified", "--yes"},
			c.args...)...)
		require.EqualError(t, err, "nothing was changed")
		require.Contains(t, errs, c.want)
	}
	require.Empty(t, d.appended)
}

func TestSetChangesSingleFactsAndSendsAll(t *testing.T) {
	d := newDesk(t)
	args := []string{"reviews", "record", "a", "--outcome", "verified", "--source", "https://a.example", "--set",
		"remote=false",
		"--set", `languages=["French"]`, "--set", "applicationStatus=open", "--set", "pay=null"}
	_, errs, err := verb(t, d.url, "", args...)
	require.ErrorContains(t, err, "--yes")
	require.Contains(t, errs,
		"Remote: Yes → No\nLanguages: English → French\nApplication status: unknown → Open\nThe review will be appended")
	require.Empty(t, d.appended, "without confirmation")

	out, errs, err := verb(t, d.url, "", append(args, "--yes")...)
	require.NoError(t, err)
	require.Contains(t, errs, "Remote: Yes → No")
	require.Equal(t, "appended 1, duplicates 0\n", out)
	var sent struct{ Facts json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(<-d.appended), &sent))
	require.JSONEq(t, apitest.WholeFacts(`{"remote":false,"languages":["French"],"applicationStatus":"open",
		"countryEligibility":[{"country":"CA","status":"eligible","excludedRegions":["CA-QC"],"sourceUrls":["https://a.example/regions"]}],
		"riskIndicators":[{"code":"fees","note":"5 CAD","sourceUrl":"https://a.example/fees"}]}`), string(sent.Facts))
}

func TestFactsThatStayKeepTheirQuotes(t *testing.T) {
	d := newDesk(t)
	_, _, err := verb(t, d.url, "", "reviews", "record", "a", "--outcome", "verified", "--source",
		"https://a.example/terms", "--set", `languages=["French"]`, "--yes")
	require.NoError(t, err)
	var sent struct{ Evidence api.Evidence }
	require.NoError(t, json.Unmarshal([]byte(<-d.appended), &sent))
	require.Equal(t, []api.Quote{{Fact: "remote", SourceURL: "https://a.example/terms", Exact: "from home",
		Prefix: "You work "}}, sent.Evidence.Quotes,
		"in its new surroundings; not those of a changed fact or of a page that was not used")
}
