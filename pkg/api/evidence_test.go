package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

var unknownFacts = func() string {
	text, _ := json.Marshal(api.UnknownFacts())
	return string(text)
}()

func TestVerifiedReviewNeedsEvidence(t *testing.T) {
	source := []string{"https://a.example/terms"}
	known := strings.Replace(unknownFacts, `"remote":null`, `"remote":true`, 1)
	allFacts := fmt.Sprintf("facts: a verified review needs all %d facts", len(api.FactNames))
	country := func(entry string) string {
		return strings.Replace(known, `"countryEligibility":[]`, `"countryEligibility":[`+entry+`]`, 1)
	}
	for _, c := range []struct {
		name    string
		outcome api.Outcome
		sources []string
		facts   string
		want    []string // starts of the problems
	}{
		{"whole", api.OutcomeVerified, source, known, nil},
		{"no source", api.OutcomeVerified, nil, known,
			[]string{"sourceUrls: a verified review needs at least one source URL"}},
		{"no facts", api.OutcomeVerified, source, "", []string{allFacts + ": countryEligibility, remote, "}},
		{"null facts", api.OutcomeVerified, source, "null", []string{allFacts}},
		{"no facts and no source", api.OutcomeVerified, nil, "", []string{"sourceUrls: ", "facts: "}},
		{"empty facts", api.OutcomeVerified, source, "{}", []string{
			"facts: " + strings.Join(api.FactNames, ", ") + " are missing",
			"facts: a verified review needs at least one known fact"}},
		{"nothing known", api.OutcomeVerified, source, unknownFacts,
			[]string{"facts: a verified review needs at least one known fact"}},
		{"one fact left out", api.OutcomeVerified, source, strings.Replace(known, `"pay":null,`, "", 1),
			[]string{fmt.Sprintf("facts: pay is missing; send all %d facts", len(api.FactNames))}},
		{"ineligible without a source", api.OutcomeVerified, source, country(`{"country":"US","status":"ineligible"}`),
			[]string{"facts.countryEligibility[0].sourceUrls: an ineligible country needs at least one source URL"}},
		{"eligible without a source", api.OutcomeVerified, source, country(`{"country":"US","status":"eligible"}`),
			[]string{"facts.countryEligibility[0].sourceUrls: an eligible country"}},
		{"unknown country without a source", api.OutcomeVerified, source,
			country(`{"country":"US","status":"unknown"}`), nil},
		{"closed without anything", api.OutcomeClosed, nil, "", nil},
		{"closed with unknown facts", api.OutcomeClosed, nil, unknownFacts, nil},
		{"in doubt with some facts", api.OutcomeNeedsReview, nil, `{"remote":true}`,
			[]string{"facts: countryEligibility, degreeRequired, "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var facts *api.GivenFacts
			var problems api.Problems
			if c.facts != "" {
				require.NoError(t, json.Unmarshal([]byte(c.facts), &facts))
			}
			if facts != nil {
				facts.Normalize("facts", &problems)
			}
			problems.Evidence(c.outcome, c.sources, facts)
			requireStarts(t, c.want, problems)
		})
	}
}

func TestRecordedReviewIsEvidencedBySourceAndFact(t *testing.T) {
	known, unknown := api.Facts{Remote: new(true)}, api.UnknownFacts()
	source := []string{"https://a.example"}
	require.True(t, api.VerificationEvent{SourceURLs: source, Facts: &known}.Evidenced())
	require.False(t, api.VerificationEvent{SourceURLs: source, Facts: &unknown}.Evidenced())
	require.False(t, api.VerificationEvent{SourceURLs: source}.Evidenced())
	require.False(t, api.VerificationEvent{Facts: &known}.Evidenced())
}

func TestReviewIsFreshUpToAndIncludingFourteenDays(t *testing.T) {
	checked := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	s := api.Summary{LastCheckedAt: &checked, LastOutcome: api.OutcomeVerified}
	end := checked.Add(14 * 24 * time.Hour)
	require.Equal(t, api.Verified, s.StatusAt(nil, end))
	require.Equal(t, api.Stale, s.StatusAt(nil, end.Add(time.Nanosecond)))
}

func TestNoCheckIsShownLaterThanTheResponse(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first, ahead, until := now.Add(-time.Hour), now.Add(time.Second), now.Add(time.Second).Add(api.FreshnessWindow)
	s := api.Summary{FirstCheckedAt: &first, LastCheckedAt: &ahead, FreshUntil: &until,
		LastOutcome:     api.OutcomeVerified,
		ApplicationLink: &api.ApplicationLink{Outcome: api.OutcomeReachable, CheckedAt: ahead}}
	shown := s.VerificationAt(nil, now)
	require.Equal(t, now, *shown.LastCheckedAt)
	require.Equal(t, first, *shown.FirstCheckedAt)
	require.Equal(t, now.Add(api.FreshnessWindow), *shown.FreshUntil)
	require.Equal(t, now, shown.ApplicationLink.CheckedAt)
	require.Equal(t, api.Verified, shown.Status)

	later := s.VerificationAt(nil, now.Add(time.Minute))
	require.Equal(t, ahead, *later.LastCheckedAt)
	require.Equal(t, until, *later.FreshUntil)
	require.Equal(t, ahead, later.ApplicationLink.CheckedAt)
}

func TestFactsThatWereLeftOutStayOut(t *testing.T) {
	for _, text := range []string{`{"remote":true}`, `{}`, apitest.WholeFacts(`{"remote":null}`)} {
		var given api.GivenFacts
		require.NoError(t, json.Unmarshal([]byte(text), &given))
		again, err := json.Marshal(given)
		require.NoError(t, err)
		require.JSONEq(t, text, string(again))
	}
}

func TestFeedKeepsBytesOfSummaries(t *testing.T) {
	for _, summary := range []string{
		`{"slug":"a","sequence":7,"doubt":{"note":"\u003cb\u003e & \u2028"}}`,
		`{"slug":"a","sequence":7,"facts":null,"ofALaterRelease":[1.50,"<é>"]}`,
	} {
		var body bytes.Buffer
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false) // as package web does
		require.NoError(t, encoder.Encode([]api.EncodedSummary{{JSON: summary}}))
		var received []api.EncodedSummary
		require.NoError(t, json.Unmarshal(body.Bytes(), &received))
		require.Equal(t, []api.EncodedSummary{{Slug: "a", Sequence: 7, JSON: summary}}, received)
	}
	require.Error(t, json.Unmarshal([]byte(`[{"slug":1}]`), new([]api.EncodedSummary)))
}
