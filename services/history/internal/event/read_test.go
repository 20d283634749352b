package event_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/event"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestReadTakesWhatMayBeRecorded(t *testing.T) {
	file, err := event.Read(strings.NewReader(
		`{"slug":"a","checkedAt":"2026-11-20T07:04:59.1234567-05:00","checkType":"review","outcome":"verified",`+
			`"sourceUrls":["https://a.example"],"facts":{"countryEligibility":[{"country":"CA","status":"eligible","includedRegions":["on"],"sourceUrls":["https://a.example/who"]}]},"note":"n"}`+
			"\n\n"+`{"slug":"b","checkedAt":"2026-11-19T00:00:00Z","checkType":"application-link","outcome":"blocked"}`), now)
	require.NoError(t, err)
	facts := api.UnknownFacts()
	facts.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.Eligible,
		IncludedRegions: []string{"CA-ON"}, ExcludedRegions: []string{}, SourceURLs: []string{"https://a.example/who"}}}
	require.Equal(t, []event.Line{
		{Number: 1, Event: api.VerificationEvent{Slug: "a", CheckedAt: time.Date(2026, 11, 20, 12, 4, 59, 123456000, time.UTC),
			CheckType: api.Review, Outcome: api.OutcomeVerified, SourceURLs: []string{"https://a.example"}, Facts: &facts, Note: "n"}},
		{Number: 3, Event: api.VerificationEvent{Slug: "b", CheckedAt: time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC),
			CheckType: api.LinkCheck, Outcome: api.OutcomeBlocked, SourceURLs: []string{}}},
	}, file.Lines)
	require.Empty(t, file.Refused)
}

func TestReadTakesEveryOutcomeOfItsKindAndNoOther(t *testing.T) {
	all := []api.Outcome{api.OutcomeVerified, api.OutcomeReachable, api.OutcomeBlocked, api.OutcomeUnreachable, api.OutcomeClosed, api.OutcomeNeedsReview}
	allowed := map[api.CheckType]string{
		api.Review:    "verified closed needs-review",
		api.LinkCheck: "reachable blocked unreachable closed needs-review",
	}
	for kind, outcomes := range allowed {
		for _, outcome := range all {
			file, err := event.Read(strings.NewReader(
				`{"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"`+string(kind)+`","outcome":"`+string(outcome)+`"}`), now)
			require.NoError(t, err)
			if strings.Contains(" "+outcomes+" ", " "+string(outcome)+" ") {
				require.Empty(t, file.Refused, "%s %s", kind, outcome)
				require.Len(t, file.Lines, 1)
			} else {
				require.Empty(t, file.Lines)
				require.Equal(t, api.Problems{"outcome: must be one of " + strings.ReplaceAll(outcomes, " ", ", ")}, file.Refused[0].Problems)
			}
		}
	}
}

func TestReadNamesEveryProblem(t *testing.T) {
	valid := `"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"review","outcome":"verified"`
	for _, c := range []struct {
		name, line, slug string
		problems         api.Problems
	}{
		{"nothing at all", `{}`, "", api.Problems{
			"slug: must be the id of a listing: lower-case letters, digits and single hyphens, at most 80 characters",
			"checkedAt: is missing", "checkType: must be one of review, application-link"}},
		{"an id", `{` + valid + `,"id":"x"}`, "a", api.Problems{"id: is not a known field"}},
		{"unreadable, with a slug", `{"slug":"a","checkedAt":"yesterday"}`, "a",
			api.Problems{"checkedAt: must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z"}},
		{"a date alone", `{"slug":"a","checkedAt":"2026-11-19","checkType":"review","outcome":"verified"}`, "a",
			api.Problems{"checkedAt: must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z"}},
		{"future", `{"slug":"a","checkedAt":"2026-11-20T12:05:01Z","checkType":"review","outcome":"verified"}`, "a",
			api.Problems{"checkedAt: must not be in the future"}},
		{"long ago", `{"slug":"a","checkedAt":"0000-01-01T00:00:00+10:00","checkType":"review","outcome":"verified"}`, "a",
			api.Problems{"checkedAt: must not be before 1970"}},
		{"addresses", `{` + valid + `,"sourceUrls":["https://a.example","ftp://a.example","https://u:p@a.example"]}`, "a", api.Problems{
			"sourceUrls[1]: must be an absolute http or https URL without user name and password, at most 2048 characters",
			"sourceUrls[2]: must be an absolute http or https URL without user name and password, at most 2048 characters"}},
		{"many addresses", `{` + valid + `,"sourceUrls":[` + strings.Repeat(`"https://a.example",`, 100) + `"https://a.example"]}`, "a",
			api.Problems{"sourceUrls: must have at most 100 elements"}},
		{"facts of a link check", `{"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"application-link","outcome":"closed","facts":{}}`, "a",
			api.Problems{"facts: must be null or left out: a link check says nothing about facts"}},
		{"wrong facts", `{` + valid + `,"facts":{"applicationStatus":"shut"}}`, "a",
			api.Problems{"facts.applicationStatus: must be one of open, waitlist, closed, unknown"}},
		{"unknown fact", `{` + valid + `,"facts":{"applicationstatus":"open"}}`, "a",
			api.Problems{"facts.applicationstatus: is not a known field"}},
		{"long note", `{` + valid + `,"note":"` + strings.Repeat("ä", 2001) + `"}`, "a", api.Problems{"note: must have at most 2000 characters"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := event.Read(strings.NewReader(c.line), now)
			require.NoError(t, err)
			require.Equal(t, event.File{Refused: []api.Refusal{{Line: 1, ID: c.slug, Problems: c.problems}}}, file)
		})
	}
}

func TestOfAWrongFileNoMoreIsKeptThanIsTold(t *testing.T) {
	file, err := event.Read(strings.NewReader(strings.Repeat("x\n", event.MaxReported+7)), now)
	require.NoError(t, err)
	require.Empty(t, file.Lines)
	require.Len(t, file.Refused, event.MaxReported)
	require.Equal(t, 7, file.Omitted)
}

func TestReadFailsWithItsFile(t *testing.T) {
	broken := errors.New("cut off")
	_, err := event.Read(iotest.ErrReader(broken), now)
	require.ErrorIs(t, err, broken)
}

// Whatever a file holds, a line is either refused or can be recorded, read back and served unchanged.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"slug":"a","checkedAt":"2026-11-19T00:00:00Z","checkType":"review","outcome":"verified","facts":{"pay":{"minimum":1,"maximum":2,"currency":"CAD","unit":"hour","sourceUrl":"https://a.example"}}}`))
	f.Add([]byte("{\"slug\":\"b\",\"checkedAt\":\"2026-11-19T00:00:00.000000001+14:00\",\"checkType\":\"application-link\",\"outcome\":\"closed\",\"note\":\"\u2028<\"}\r\n\n{}"))
	f.Add([]byte(`{"slug":"a","checkedAt":"0000-01-01T00:00:00+23:59","checkType":"review","outcome":"verified"}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := event.Read(strings.NewReader(string(file)), now)
		require.NoError(t, err)
		for _, line := range in.Lines {
			r, err := event.New(line.Event)
			require.NoError(t, err)
			again, err := r.Event()
			require.NoError(t, err)
			require.Equal(t, line.Event, again)
			twice, err := event.New(again)
			require.NoError(t, err)
			require.Equal(t, r, twice, "served and recorded again it is the same event")
		}
	})
}
