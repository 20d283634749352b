package verbs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

// desk is an admin listener with one listing. It rejects the first appends, as many as rejects, and accepts later ones.
type desk struct {
	url      string
	appended chan string
	rejects  int
	newer    bool // another review was recorded meanwhile
}

// sheetTime is the time of the desk's review sheet.
var sheetTime = time.Date(2026, 11, 20, 9, 0, 0, 123456000, time.UTC)

func newDesk(t *testing.T) *desk {
	t.Helper()
	yes := true
	reviewed, own := api.UnknownFacts(), api.UnknownFacts()
	reviewed.Remote, reviewed.Languages = &yes, []string{"English"}
	reviewed.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.Eligible, ExcludedRegions: []string{"CA-QC"},
		SourceURLs: []string{"https://a.example/regions"}}}
	reviewed.RiskIndicators = []api.RiskIndicator{{Code: "fees", Note: "5 CAD", SourceURL: "https://a.example/fees"}}
	reviewed.Complete()
	own.Remote = &yes
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	sheet := api.ReviewSheet{
		GeneratedAt: sheetTime, LastEventID: "e-9", Visibility: "published", Status: api.NeedsReview, OwnFacts: &own, ReviewedFacts: &reviewed,
		Record:  api.Opportunity{ID: "a", Platform: api.Platform{Category: api.Online}, Facts: reviewed, Sources: []api.Source{{URL: "https://a.example/terms"}}},
		Reasons: []api.DueReason{{Why: api.DueEdit, At: at, Fields: []string{"facts"}, Actor: "bob"}},
		Edits:   []api.ListingEdit{{At: at, Actor: "bob", Fields: []string{"facts"}}},
		Events: []api.RecordedEvent{{Actor: "eve", VerificationEvent: api.VerificationEvent{
			CheckType: api.LinkCheck, Outcome: api.OutcomeBlocked, CheckedAt: at, Note: "answered 403"}}},
	}
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
			d.appended <- string(in.Review)
			if d.rejects--; d.rejects >= 0 {
				_, _ = io.WriteString(w, `{"applied":false,"refused":[{"line":1,"id":"a","problems":["note: not today"]}]}`)
				return
			}
			if d.newer {
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(api.AppendReport{Rejected: []api.RejectedLine{}, Newer: []api.RecordedEvent{{
					Actor: "eve", RecordedAt: at.Add(time.Hour), VerificationEvent: api.VerificationEvent{
						Slug: "a", CheckType: api.Review, Outcome: api.OutcomeClosed, CheckedAt: at.Add(time.Minute), Note: "The site\nis gone."}}}})
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

// terminal simulates a reviewer who reads and answers questions.
type terminal struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *io.PipeReader
	seen strings.Builder // output since the last answer
	done chan error
}

func (d *desk) run(t *testing.T, args ...string) *terminal {
	t.Helper()
	t.Setenv("OPPORTUNITY_OPERATOR_TOKEN", token)
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(verbs.Commands()...)
	root.SetIn(inReader)
	root.SetOut(outWriter)
	root.SetErr(outWriter)
	root.SetArgs(append(args, "--admin-url", d.url))
	term := &terminal{t: t, in: in, out: out, done: make(chan error, 1)}
	ctx := t.Context()
	go func() {
		err := root.ExecuteContext(ctx)
		outWriter.Close()
		term.done <- err
	}()
	return term
}

// answers takes pairs of a question's beginning and a reply. It waits for each question, answers it, and returns all output up to the
// last question.
func (term *terminal) answers(pairs ...string) (shown string) {
	term.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		term.seen.Reset()
		question := ""
		for !strings.HasSuffix(question, "]: ") || strings.HasPrefix(question, " ") { // problems with an answer are indented
			var one [1]byte
			_, err := term.out.Read(one[:])
			require.NoError(term.t, err, "waiting for %q: %s", pairs[i], term.seen.String())
			term.seen.Write(one[:])
			question = term.seen.String()[strings.LastIndex(term.seen.String(), "\n")+1:]
		}
		shown += term.seen.String()
		require.True(term.t, strings.HasPrefix(question, pairs[i]), "want question %q, got %q", pairs[i], question)
		_, err := io.WriteString(term.in, pairs[i+1]+"\n")
		require.NoError(term.t, err)
	}
	return shown
}

// end returns the remaining output and the command's error.
func (term *terminal) end() (shown string, err error) {
	rest, _ := io.ReadAll(term.out)
	return string(rest), <-term.done
}

// boolAnswers returns the questions for the three-valued facts, each followed by one of answers, or by "".
func boolAnswers(answers ...string) []string {
	var all []string
	for i, b := range api.BoolFacts {
		answer := ""
		if i < len(answers) {
			answer = answers[i]
		}
		all = append(all, b.Label, answer)
	}
	return all
}

// unchanged returns the questions, each followed by an empty answer.
func unchanged(questions ...string) []string {
	var all []string
	for _, q := range questions {
		all = append(all, q, "")
	}
	return all
}

func TestInterviewAsksForEachFact(t *testing.T) {
	d := newDesk(t)
	d.rejects = 1
	term := d.run(t, "reviews", "record", "a")
	shown := term.answers("CA (eligible", "perhaps")
	for _, s := range []string{
		"a: , online, published, needs-review", "due: changed 2026-11-20 09:00: facts by bob", "https://a.example/terms",
		`languages: reviewed ["English"], listing []`, "application-link: blocked, by eve (answered 403)", "CA (eligible, ineligible, ?; - removes it) [eligible]",
	} {
		require.Contains(t, shown, s)
	}
	shown = term.answers(slices.Concat([]string{"CA (", "", "CA, all regions", "maybe", "CA, all regions", "?", "CA, regions included", "XX", "CA, regions included", "on",
		"CA, regions excluded", "-", "CA, source", "nowhere", "CA, source", "https://a.example/who", "CA, note", "",
		"Another country", "ca", "Another country", "us", "US (", "ineligible", "US, all regions", "", "US, regions included", "", "US, regions excluded", "",
		"US, source", "https://a.example/who", "US, note", "Not there.", "Another country", "",
	}, boolAnswers("no", "?", "", "yes"), []string{
		"Pay, minimum", "x", "Pay, minimum", "20", "Pay, maximum", "10", "Pay, maximum", "25", "Pay, currency", "", "Pay, currency", "cad",
		"Pay, unit", "hour", "Pay, source", "https://a.example/pay",
		"Languages", "English, French", "Requirements", "A car; 18 years", "Applications", "open", "Where", "?",
		"Risk indicator (", "-", "Another risk", "payout", "Risk indicator, note", "", "Risk indicator, source", "", "Risk indicator, source",
		"https://a.example/payout", "Another risk", "",
		"Outcome", "", "Outcome", "fine", "Outcome", "verified", "Source URLs", "", "Note", "Terms of 2026.", "Append", "sure", "Append", "yes",
	})...)
	for _, s := range []string{
		"countryEligibility[0].status: must be one of", "enter yes, no or ?", "includedRegions[0]: must be a Canadian province", "sourceUrls[0]: must be an absolute",
		"CA appears twice", "must be a number", "pay.maximum: must not be below the minimum", "pay.currency: must be three", "riskIndicators[0].sourceUrl: must be",
		"enter one of verified, closed, needs-review", "enter yes, no or again", "This will be appended",
	} {
		require.Contains(t, shown, s)
	}
	var first map[string]any
	require.NoError(t, json.Unmarshal([]byte(<-d.appended), &first))

	// rejected: the interview starts over with the given answers in brackets
	keep := slices.Concat(unchanged(
		"CA (", "CA, all", "CA, regions inc", "CA, regions exc", "CA, source", "CA, note", "US (", "US, all", "US, regions inc", "US, regions exc", "US, source", "US, note",
		"Another country",
	), boolAnswers(), unchanged(
		"Pay, min", "Pay, max", "Pay, cur", "Pay, unit", "Pay, source", "Languages", "Requirements",
		"Applications", "Where", "Risk", "Another risk", "Outcome (verified, closed, needs-review) [verified]", "Source", "Note [Terms of 2026.]",
	))
	shown = term.answers(append(keep, "Append", "yes")...)
	require.Contains(t, shown, "a: note: not today")
	rest, err := term.end()
	require.NoError(t, err)
	require.Contains(t, rest, "appended 1, duplicates 0")
	var e api.VerificationEvent
	text := <-d.appended
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	require.Equal(t, sheetTime, e.CheckedAt, "the time of the sheet that the reviewer saw")
	require.Contains(t, text, `"lastEventId":"e-9"`)
	require.Equal(t, api.Review, e.CheckType)
	require.Equal(t, []string{"https://a.example/terms"}, e.SourceURLs)
	require.Equal(t, "Terms of 2026.", e.Note)
	var want api.Facts
	require.NoError(t, json.Unmarshal([]byte(`{"countryEligibility":[
		{"country":"CA","status":"eligible","allRegions":null,"includedRegions":["CA-ON"],"excludedRegions":[],"sourceUrls":["https://a.example/who"],"note":""},
		{"country":"US","status":"ineligible","allRegions":null,"includedRegions":[],"excludedRegions":[],"sourceUrls":["https://a.example/who"],"note":"Not there."}],
		"remote":false,"degreeRequired":null,"experienceRequired":null,"flexibleSchedule":true,
		"pay":{"minimum":20,"maximum":25,"currency":"CAD","unit":"hour","sourceUrl":"https://a.example/pay"},"languages":["English","French"],
		"applicationStatus":"open","applicationUrl":null,"requirements":["A car","18 years"],
		"riskIndicators":[{"code":"payout","note":"","sourceUrl":"https://a.example/payout"}]}`), &want))
	require.Equal(t, want, *e.Facts)
}

func TestReviewIsAppendedOnlyAfterConfirmation(t *testing.T) {
	keep := slices.Concat(unchanged(
		"CA (", "CA, all", "CA, regions inc", "CA, regions exc", "CA, source", "CA, note", "Another country",
	), boolAnswers(), unchanged(
		"Pay, min",
		"Languages", "Requirements", "Applications", "Where", "Risk", "Another risk",
	))
	d := newDesk(t)
	term := d.run(t, "reviews", "record", "a")
	shown := term.answers(append(keep, "Outcome", "closed", "Source", "-", "Note", "", "Append", "no")...)
	require.NotContains(t, shown[strings.Index(shown, "will be appended"):], "facts", "a review that is not verified changes facts only on request")
	rest, err := term.end()
	require.NoError(t, err)
	require.Contains(t, rest, "nothing was appended")

	term = d.run(t, "reviews", "record", "a")
	term.answers("CA (", "")
	require.NoError(t, term.in.Close())
	_, err = term.end()
	require.ErrorContains(t, err, "nothing was appended")

	_, err = d.run(t, "reviews", "record", "unknown").end()
	require.ErrorContains(t, err, "no listing with this id")
	require.Empty(t, d.appended)
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
	_, err := record("--outcome", "closed", "--note", "Gone.", "--source", "https://a.example", "--source", "https://b.example", "--checked-at", "2026-11-20T09:00:00Z")
	require.NoError(t, err)
	require.JSONEq(t, `{"slug":"a","checkedAt":"2026-11-20T09:00:00Z","checkType":"review","outcome":"closed","sourceUrls":["https://a.example","https://b.example"],"note":"Gone.","lastEventId":"e-9"}`, <-d.appended)
	_, err = record("--outcome", "verified", "--source", "https://a.example", "--facts", file(apitest.WholeFacts(`{"remote":true}`)))
	require.NoError(t, err)
	require.Contains(t, <-d.appended, `"checkedAt":"2026-11-20T09:00:00.123456Z"`, "the time of the sheet")
	_, err = record("--event", file(`{"outcome":"closed", "note":"x",
		"lastEventId":"e-7"}`))
	require.NoError(t, err)
	sent := <-d.appended
	require.Contains(t, sent, `"outcome":"closed","note":"x","lastEventId":"e-7"}`)
	require.Contains(t, sent, `"slug":"a"`)
	require.NotContains(t, sent, "\n")
	require.NotContains(t, sent, "e-9")

	d.rejects = 1
	text, err := record("--outcome", "closed")
	require.ErrorContains(t, err, "nothing was changed")
	require.Contains(t, text, "a: note: not today")
	<-d.appended
	for _, args := range [][]string{
		{"--event", file(`{"slug":"b"}`)}, {"--event", file(`{"checkType":"application-link"}`)}, {"--event", file(`[]`)}, {"--event", file(`{} {}`)},
		{"--event", file(`{"outcome":"closed","outcome":"closed"}`)}, {"--outcome", "closed", "--set", "pay"}, {"--outcome", "closed", "--set", "salary=1"},
		{"--set", "remote=true"}, {"--event", "/no/such/file"}, {"--note", "x"}, {"--event", file(`{}`), "--outcome", "closed"},
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
		{nil, fmt.Sprintf("a: facts: a verified review needs all %d facts", len(api.FactNames))},
		{nil, "a: sourceUrls: a verified review needs at least one source URL"},
		{[]string{"--set", "remote=true"}, "a: sourceUrls: a verified review needs at least one source URL"},
		{[]string{"--source", "https://a.example", "--facts", partial}, "a: facts: countryEligibility, degreeRequired, "},
		{[]string{"--source", "https://a.example", "--set", "remote=ture"}, "a: facts.remote: must be true or false"},
		{[]string{"--source", "https://a.example", "--set", `countryEligibility=[{"country":"US","status":"ineligible"}]`},
			"a: facts.countryEligibility[0].sourceUrls: an ineligible country needs at least one source URL"},
	} {
		_, errs, err := verb(t, d.url, "", append([]string{"reviews", "record", "a", "--outcome", "verified", "--yes"}, c.args...)...)
		require.ErrorContains(t, err, "nothing was changed")
		require.Contains(t, errs, c.want)
	}
	require.Empty(t, d.appended)
}

func TestSetChangesSingleFactsAndSendsAll(t *testing.T) {
	d := newDesk(t)
	args := []string{"reviews", "record", "a", "--outcome", "verified", "--source", "https://a.example", "--set", "remote=false",
		"--set", `languages=["French"]`, "--set", "applicationStatus=open", "--set", "pay=null"}
	_, errs, err := verb(t, d.url, "", args...)
	require.ErrorContains(t, err, "--yes")
	require.Contains(t, errs, "remote: true -> false\nlanguages: [\"English\"] -> [\"French\"]\napplicationStatus: \"unknown\" -> \"open\"\nThe review will be appended")
	require.Empty(t, d.appended, "without confirmation")

	out, errs, err := verb(t, d.url, "", append(args, "--yes")...)
	require.NoError(t, err)
	require.Contains(t, errs, "remote: true -> false")
	require.Equal(t, "appended 1, duplicates 0\n", out)
	var sent struct{ Facts json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(<-d.appended), &sent))
	require.JSONEq(t, apitest.WholeFacts(`{"remote":false,"languages":["French"],"applicationStatus":"open",
		"countryEligibility":[{"country":"CA","status":"eligible","excludedRegions":["CA-QC"],"sourceUrls":["https://a.example/regions"]}],
		"riskIndicators":[{"code":"fees","note":"5 CAD","sourceUrl":"https://a.example/fees"}]}`), string(sent.Facts))
}

func TestConflictingReviewShowsNewerEvents(t *testing.T) {
	d := newDesk(t)
	d.newer = true
	_, errs, err := verb(t, d.url, "", "reviews", "record", "a", "--outcome", "closed")
	require.ErrorContains(t, err, "nothing was changed")
	require.Contains(t, errs, "a: review closed, checked 2026-11-20 09:01:00Z, recorded 2026-11-20 10:00:00Z by eve (The site is gone.)\n")
	require.Contains(t, errs, "run the command again")

	out, _, err := verb(t, d.url, "", "reviews", "record", "a", "--outcome", "closed", "--output", "json")
	require.Error(t, err)
	var report api.AppendReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Newer, 1)
}
