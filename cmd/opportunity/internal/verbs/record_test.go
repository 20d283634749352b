package verbs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/storetest"
)

// sheetTime is the time of the review sheet.
var sheetTime = time.Date(2026, 11, 20, 9, 0, 0, 123456000, time.UTC)

// recording returns "reviews record a" for an admin listener with that listing, and the reviews
// that it was sent.
func recording(t *testing.T) (record func(args ...string) (printed string, err error), sent chan string) {
	t.Helper()
	yes := true
	reviewed := api.UnknownFacts()
	reviewed.Remote, reviewed.Languages = &yes, []string{"English"}
	reviewed.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.Eligible,
		ExcludedRegions: []string{"CA-QC"}, SourceURLs: []string{"https://a.example/regions"}}}
	reviewed.RiskIndicators = []api.RiskIndicator{{Code: "fees", Note: "5 CAD", SourceURL: "https://a.example/fees"}}
	reviewed.Complete()
	const terms = "https://a.example/terms"
	sheet := api.ReviewSheet{GeneratedAt: sheetTime, LastEventID: "e-9", ReviewedFacts: &reviewed,
		Record: api.Opportunity{ID: "a", Facts: reviewed, Sources: []api.Source{{URL: terms}}},
		Evidence: api.Evidence{Quotes: []api.Quote{{Fact: "remote", SourceURL: terms, Exact: "from home"},
			{Fact: "languages", SourceURL: terms, Exact: "in English"},
			{Fact: "riskIndicators", SourceURL: "https://a.example/unused", Exact: "a fee"}}}}
	moved := sheet.Evidence.Quotes[0]
	moved.Prefix = "You work "
	sheet.Readings = []api.QuoteReading{{Quote: sheet.Evidence.Quotes[0], Finding: api.QuoteMoved, Moved: &moved}}
	shown := storetest.Must(json.Marshal(sheet))(t)
	sent = make(chan string, 9)
	url := gateway(t, func(request, body string, _ bool) (int, string) {
		var in struct{ Review json.RawMessage }
		switch {
		case request == "GET /operator/v1/reviews/records/a":
			return http.StatusOK, string(shown)
		case request != "POST /operator/v1/reviews/records/a" || json.Unmarshal([]byte(body), &in) != nil:
			return http.StatusTeapot, ""
		}
		sent <- string(in.Review)
		return http.StatusOK, `{"applied":true,"appended":1,"refused":[]}`
	})
	return func(args ...string) (string, error) {
		out, errs, err := verb(t, url, "", append([]string{"reviews", "record", "a"}, args...)...)
		return errs + out, err
	}, sent
}

func written(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "f.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestReviewFromFlagsAndFiles(t *testing.T) {
	record, sent := recording(t)
	_, err := record("--outcome", "closed", "--note", "Gone.", "--source", "https://a.example", "--source",
		"https://b.example", "--checked-at", "2026-11-20T09:00:00Z")
	require.NoError(t, err)
	require.JSONEq(t, `{"slug":"a","checkedAt":"2026-11-20T09:00:00Z","checkType":"review","outcome":"closed",
		"sourceUrls":["https://a.example","https://b.example"],"note":"Gone.","lastEventId":"e-9"}`, <-sent)
	_, err = record("--outcome", "verified", "--source", "https://a.example", "--facts",
		written(t, apitest.WholeFacts(`{"remote":true}`)))
	require.NoError(t, err)
	require.Contains(t, <-sent, `"checkedAt":"2026-11-20T09:00:00.123456Z"`, "the time of the sheet")
	_, err = record("--event", written(t, "{\"outcome\":\"closed\", \"note\":\"x\",\n\"lastEventId\":\"e-7\"}"))
	require.NoError(t, err)
	require.JSONEq(t, `{"slug":"a","checkedAt":"2026-11-20T09:00:00.123456Z","checkType":"review","outcome":"closed",
		"sourceUrls":[],"note":"x","lastEventId":"e-7"}`, <-sent)
	_, err = record("--outcome", "closed", "--closed", "ended")
	require.NoError(t, err)
	require.Contains(t, <-sent, `"evidence":{"quotes":[],"gone":[],"unopened":[],"closed":"ended"}`)

	for _, event := range []string{`{"slug":"b"}`, `{"checkType":"application-link"}`, `[]`, `{} {}`,
		`{"outcome":"closed","outcome":"closed"}`} {
		require.Error(t, storetest.Err(record("--event", written(t, event))), event)
	}
	for _, args := range [][]string{
		{"--outcome", "closed", "--set", "pay"}, {"--outcome", "closed", "--set", "salary=1"},
		{"--outcome", "verified", "--closed", "ended"}, {"--outcome", "closed", "--closed", "gone"},
		{"--set", "remote=true"}, {"--event", "/no/such/file"}, {"--note", "x"}, {},
		{"--outcome", "closed", "--checked-at", "yesterday"}, {"--event", written(t, "{}"), "--note", "x"},
		{"--outcome", "closed", "--facts", written(t, "{}"), "--set", "remote=true"},
	} {
		require.Error(t, storetest.Err(record(args...)), args)
	}
	require.Empty(t, sent)
}

func TestReviewWithoutEvidenceIsNotSent(t *testing.T) {
	record, sent := recording(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--source", "example.com"}, "a: sourceUrls[0]: "},
		{nil, fmt.Sprintf("a: facts: a verified review needs all %d facts", len(api.FactNames))},
		{[]string{"--set", "remote=true"}, "a: sourceUrls: a verified review needs at least one source URL"},
		{[]string{"--source", "https://a.example", "--facts", written(t, `{"remote":true}`)},
			"a: facts: countryEligibility, degreeRequired, "},
		{[]string{"--source", "https://a.example", "--set", "remote=ture"},
			"a: facts.remote: must be true or false; it is \"ture\""},
		{[]string{"--source", "https://a.example", "--set", `countryEligibility=[{"country":"US","status":"ineligible"}]`},
			"a: facts.countryEligibility[0].sourceUrls: an ineligible country needs at least one source URL"},
	} {
		printed, err := record(append([]string{"--outcome", "verified", "--yes"}, c.args...)...)
		require.EqualError(t, err, "nothing was changed")
		require.Contains(t, printed, c.want)
	}
	require.Empty(t, sent)
}

func TestSetChangesSingleFactsAndSendsAll(t *testing.T) {
	record, sent := recording(t)
	args := []string{"--outcome", "verified", "--source", "https://a.example/terms", "--set", "remote=true", "--set",
		`languages=["French"]`, "--set", "applicationStatus=open", "--set", "pay=null"}
	const changes = "Languages: English → French\nApplication status: unknown → Open\n"
	printed, err := record(args...)
	require.ErrorContains(t, err, "--yes")
	require.Equal(t, changes+"The review will be appended, and can only be corrected by a later one.\n", printed)
	require.Empty(t, sent, "without confirmation")

	printed, err = record(append(args, "--yes")...)
	require.NoError(t, err)
	require.Equal(t, changes+"appended 1, duplicates 0\n", printed)
	var review struct {
		Facts    json.RawMessage
		Evidence api.GivenEvidence
	}
	require.NoError(t, json.Unmarshal([]byte(<-sent), &review))
	require.JSONEq(t, apitest.WholeFacts(`{"remote":true,"languages":["French"],"applicationStatus":"open",
		"countryEligibility":[{"country":"CA","status":"eligible","excludedRegions":["CA-QC"],"sourceUrls":["https://a.example/regions"]}],
		"riskIndicators":[{"code":"fees","note":"5 CAD","sourceUrl":"https://a.example/fees"}]}`), string(review.Facts))
	require.Equal(t, []api.Quote{{Fact: "remote", SourceURL: "https://a.example/terms", Exact: "from home",
		Prefix: "You work "}}, review.Evidence.Quotes,
		"in its new surroundings; not those of a changed fact or of a page that was not used")
}
