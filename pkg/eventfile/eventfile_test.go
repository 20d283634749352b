package eventfile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/jsonlines"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func read(t *testing.T, lines string) eventfile.File {
	t.Helper()
	file, err := eventfile.Read(strings.NewReader(lines), now, api.MaxReported)
	require.NoError(t, err)
	return file
}

func TestReadAcceptsValidEvents(t *testing.T) {
	file := read(t,
		`{"slug":"a","checkedAt":"2026-11-20T07:00:00.9999999-05:00","checkType":"review","outcome":"verified",`+
			`"sourceUrls":["https://a.example/who"],"facts":`+
			apitest.WholeFacts(`{"countryEligibility":[{"country":"CA","status":"eligible","includedRegions":["on"],`+
				`"sourceUrls":["https://a.example/who"]}]}`)+
			`,"note":"n","lastEventId":"e-1"}`+"\n\n"+`{"slug":"b","checkedAt":"2026-11-19T00:00:00Z",`+
			`"checkType":"application-link","outcome":"blocked"}`)
	facts := api.UnknownFacts()
	facts.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.Eligible,
		IncludedRegions: []string{"CA-ON"}, ExcludedRegions: []string{}, SourceURLs: []string{"https://a.example/who"}}}
	require.Equal(t, []eventfile.Line{
		{Number: 1, Event: api.VerificationEvent{Slug: "a",
			CheckedAt: time.Date(2026, 11, 20, 12, 0, 0, 999999000, time.UTC),
			CheckType: api.FactualReview, Outcome: api.OutcomeVerified, SourceURLs: []string{"https://a.example/who"},
			Facts: &facts, Note: "n"}, LastEventID: new("e-1")},
		{Number: 3, Event: api.VerificationEvent{Slug: "b", CheckedAt: time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC),
			CheckType: api.LinkCheck, Outcome: api.OutcomeBlocked, SourceURLs: []string{}}},
	}, file.Lines)
	require.Empty(t, file.Rejected)
}

// reviewLine is a line of a review of "a" with more fields.
func reviewLine(outcome, more string) string {
	return `{"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"review","outcome":"` + outcome + `"` + more +
		"}"
}

const eligible = `"countryEligibility":[{"country":"CA","status":"eligible","sourceUrls":["https://a.example/who"]}]`

func TestReadCompletesReviews(t *testing.T) {
	pay := `"pay":{"minimum":17,"maximum":18,"currency":"CAD","unit":"hour","sourceUrl":"https://a.example/pay"}`
	for name, c := range map[string]struct {
		line    string
		sources []string
		status  api.ApplicationStatus
		added   []string
	}{
		"nothing to add": {reviewLine("verified",
			`,"sourceUrls":["https://a.example/who"],"facts":`+apitest.WholeFacts(`{`+eligible+`}`)),
			[]string{"https://a.example/who"}, api.ApplicationUnknown, nil},
		"cited pages": {reviewLine("verified", `,"sourceUrls":["https://a.example"],`+
			`"facts":`+apitest.WholeFacts(`{`+eligible+`,`+pay+`}`)),
			[]string{"https://a.example", "https://a.example/who", "https://a.example/pay"}, api.ApplicationUnknown,
			[]string{
				"sourceUrls: lacks https://a.example/who, which a fact cites; it is added",
				"sourceUrls: lacks https://a.example/pay, which a fact cites; it is added"}},
		"a page twice": {reviewLine("verified", `,"sourceUrls":["https://a.example","https://a.example"],`+
			`"facts":`+apitest.WholeFacts(`{"remote":true}`)),
			[]string{"https://a.example"}, api.ApplicationUnknown,
			[]string{"sourceUrls: names a page twice; it is recorded once"}},
		"closed": {reviewLine("closed", `,"facts":`+apitest.WholeFacts(`{"applicationStatus":"open"}`)),
			[]string{}, api.ApplicationClosed, []string{"facts.applicationStatus: is recorded as closed, like the outcome"}},
	} {
		file := read(t, c.line)
		require.Empty(t, file.Rejected, name)
		require.Equal(t, c.sources, file.Lines[0].Event.SourceURLs, name)
		require.Equal(t, c.status, file.Lines[0].Event.Facts.ApplicationStatus, name)
		require.Equal(t, apitest.Problems(c.added...), file.Lines[0].Added(), name)
	}
}

func TestReadChecksEvidence(t *testing.T) {
	quote := func(fact, source, more string) string {
		return `{"fact":"` + fact + `","sourceUrl":"` + source + `","exact":"Open to residents of Canada"` + more + `}`
	}
	verified := func(evidence string) string {
		return reviewLine("verified", `,"sourceUrls":["https://a.example"],`+
			`"facts":`+apitest.WholeFacts(`{`+eligible+`}`)+`,"evidence":`+evidence)
	}
	file := read(t, verified(`{"quotes":[`+quote("countryEligibility",
		"https://a.example/who", `,"prefix":"We are ","suffix":"."`)+
		`],"gone":["https://a.example/faq","https://a.example/faq"],"unopened":["https://b.example"]}`))
	require.Empty(t, file.Rejected)
	require.Equal(t, api.Evidence{
		Quotes: []api.Quote{{Fact: "countryEligibility", SourceURL: "https://a.example/who",
			Exact: "Open to residents of Canada", Prefix: "We are ", Suffix: "."}},
		Gone: []string{"https://a.example/faq"}, Unopened: []string{"https://b.example"},
	}, file.Lines[0].Evidence)

	used := quote("countryEligibility", "https://a.example", "")
	for name, c := range map[string]struct{ line, problem string }{
		"no such fact": {verified(`{"quotes":[` + quote("mood", "https://a.example", "") + `]}`),
			"evidence.quotes[0].fact: must be one of " + strings.Join(api.FactNames, ", ") + `; "mood" is none`},
		"unknown fact": {verified(`{"quotes":[` + quote("pay", "https://a.example", "") + `]}`),
			"evidence.quotes[0].fact: pay has no known value in the facts of this review"},
		"another page": {verified(`{"quotes":[` + quote("countryEligibility", "https://c.example", "") + `]}`),
			"evidence.quotes[0].sourceUrl: \"https://c.example\" must be one of sourceUrls"},
		"too many": {verified(`{"quotes":[` + strings.Join(numbered(used, 11), ",") + `]}`),
			"evidence.quotes: has 11 quotes of countryEligibility; a fact has at most 10"},
		"long context": {verified(`{"quotes":[` + quote("countryEligibility", "https://a.example",
			`,"suffix":"`+strings.Repeat("é", 61)+`"`) + `]}`),
			"evidence.quotes[0].suffix: must have at most 60 characters"},
		"no text": {verified(`{"quotes":[` + strings.Replace(used, "Open to residents of Canada", " ", 1) + `]}`),
			"evidence.quotes[0].exact: must not be empty"},
		"used and gone": {verified(`{"gone":["https://a.example"]}`),
			"evidence.gone[0]: is also in sourceUrls, the pages that were used"},
		"no URL": {verified(`{"unopened":["the library"]}`),
			"evidence.unopened[0]: must be an absolute http or https URL, such as https://example.com/apply; \"the " +
				"library\" is none"},
		"captures": {verified(`{"captures":[]}`), "evidence.captures: is not a known field"},
		"of a link check": {`{"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"application-link",` +
			`"outcome":"blocked","evidence":{"gone":["https://a.example"]}}`,
			"evidence: must be left out: only a review has evidence"},
	} {
		file := read(t, c.line)
		require.Equal(t, apitest.Problems(c.problem), file.Rejected[0].Problems, name)
	}
}

func numbered(quote string, n int) (quotes []string) {
	for i := range n {
		quotes = append(quotes, strings.Replace(quote, "Open to", fmt.Sprintf("%d: open to", i), 1))
	}
	return quotes
}

func TestReadAcceptsOnlyOutcomesOfTheCheckType(t *testing.T) {
	all := []api.Outcome{api.OutcomeVerified, api.OutcomeReachable, api.OutcomeBlocked, api.OutcomeUnreachable,
		api.OutcomeClosed, api.OutcomeNeedsReview}
	more := map[api.CheckType]string{api.FactualReview: `,"sourceUrls":["https://a.example"],"facts":` +
		apitest.WholeFacts(`{"remote":true}`)}
	for kind, want := range map[api.CheckType]string{
		api.FactualReview: "[verified closed needs-review]",
		api.LinkCheck:     "[reachable blocked unreachable closed needs-review]",
	} {
		var accepted []api.Outcome
		for _, outcome := range all {
			line := strings.Replace(reviewLine(string(outcome), more[kind]), "review", string(kind), 1)
			file := read(t, line)
			if len(file.Lines) == 1 {
				accepted = append(accepted, outcome)
				continue
			}
			require.Contains(t, file.Rejected[0].Problems[0].String(), "outcome: must be one of")
		}
		require.Equal(t, want, fmt.Sprint(accepted))
	}
}

func TestReadReportsEveryProblem(t *testing.T) {
	valid := `"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"review","outcome":"closed"`
	verified := strings.Replace(valid, "closed", "verified", 1)
	for _, c := range []struct {
		name, line, slug string
		problems         api.Problems
	}{
		{"nothing at all", `{}`, "", apitest.Problems(
			"slug: must be the id of a listing: lower-case letters, digits and single hyphens, at most 80 characters",
			"checkedAt: is missing", "checkType: must be one of review, application-link; \"\" is none")},
		{"an id", `{` + valid + `,"id":"x"}`, "a", apitest.Problems("id: is not a known field")},
		{"unreadable, with a slug", `{"slug":"a","checkedAt":"yesterday"}`, "a",
			apitest.Problems(`checkedAt: must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z; "yesterday" ` +
				`is none`)},
		{"a date alone", `{"slug":"a","checkedAt":"2026-11-19","checkType":"review","outcome":"closed"}`, "a",
			apitest.Problems(`checkedAt: must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z; ` +
				`"2026-11-19" is none`)},
		{"future", `{"slug":"a","checkedAt":"2026-11-20T12:00:01.000001Z","checkType":"review","outcome":"closed"}`,
			"a",
			apitest.Problems("checkedAt: must not be in the future: the clock of the service reads 2026-11-20T12:00:00Z")},
		{"long ago", `{"slug":"a","checkedAt":"0000-01-01T00:00:00+10:00","checkType":"review","outcome":"closed"}`,
			"a",
			apitest.Problems("checkedAt: must not be before 1970")},
		{"addresses", `{` + valid + `,"sourceUrls":["https://a.example","ftp://a.example","https://u:p@a.example"]}`,
			"a", apitest.Problems(
				"sourceUrls[1]: must be an absolute http or https URL, such as https://example.com/apply; \"ftp://a.example\" "+
					"is none",
				"sourceUrls[2]: must be a URL without user name and password")},
		{"many addresses", `{` + valid + `,"sourceUrls":[` + strings.Repeat(`"https://a.example",`, 100) +
			`"https://a.example"]}`, "a",
			apitest.Problems("sourceUrls: must have at most 100 elements")},
		{"facts of a link check", `{"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"application-link",` +
			`"outcome":"closed","facts":{}}`, "a",
			apitest.Problems("facts: must be null or left out: a link check says nothing about facts")},
		{"verified without source and facts", `{` + verified + `}`, "a",
			apitest.Problems("sourceUrls: a verified review needs at least one source URL",
				"facts: a verified review needs all 11 facts: "+strings.Join(api.FactNames, ", "))},
		{"verified with some facts", `{` + verified + `,"sourceUrls":["https://a.example"],"facts":` +
			strings.Replace(apitest.WholeFacts(`{"remote":true}`), `"pay":null,`, "", 1) + `}`, "a",
			apitest.Problems(`facts: pay is missing; send all 11 facts, unknown ones as null, "unknown" or []`)},
		{"wrong facts", `{` + valid + `,"facts":` + apitest.WholeFacts(`{"applicationStatus":"shut"}`) + `}`, "a",
			apitest.Problems("facts.applicationStatus: must be one of open, waitlist, closed, unknown; \"shut\" is none")},
		{"unknown fact", `{` + valid + `,"facts":{"applicationstatus":"open"}}`, "a",
			apitest.Problems("facts.applicationstatus: is not a known field")},
		{"long note", `{` + valid + `,"note":"` + strings.Repeat("ä", 2001) + `"}`, "a",
			apitest.Problems("note: must have at most 2000 characters")},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := read(t, c.line)
			require.Equal(t, eventfile.File{Rejections: jsonlines.Rejections{Rejected: []api.RejectedLine{{Line: 1,
				ID: c.slug, Problems: c.problems}}}}, file)
		})
	}
}

func TestReadLimitsTheSizeOfAnEvent(t *testing.T) {
	line := func(sources int) string {
		urls := make([]string, sources)
		for i := range urls {
			urls[i] = fmt.Sprintf(`"https://a.example/%02d/%s"`, i, strings.Repeat("x", 2000))
		}
		return `{"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"application-link","outcome":"reachable",` +
			`"sourceUrls":[` + strings.Join(urls, ",") + "]}"
	}
	file := read(t, line(31)+"\n"+line(32))
	require.Len(t, file.Lines, 1)
	require.Len(t, file.Rejected, 1)
	require.Contains(t, file.Rejected[0].Problems[0].String(), "want at most 64000")
}
