package event_test

import (
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/event"
)

func TestShareOfReviewsThatAreDrawn(t *testing.T) {
	const reviews = 20_000
	for name, c := range map[string]struct {
		sources     string
		kind        api.CheckType
		outcome     api.Outcome
		one, within float64
	}{
		"with a page of the platform": {`["https://list.example/best","https://help.maple.co.uk/who"]`, api.Review, api.OutcomeVerified, 20, reviews / 200},
		"of third parties alone":      {`["https://list.example/best","https://oak.co.uk"]`, api.Review, api.OutcomeVerified, 4, reviews / 100},
		"not verified":                {`["https://www.maple.co.uk"]`, api.Review, api.OutcomeNeedsReview, math.Inf(1), 0},
		"no review":                   {`[]`, api.LinkCheck, api.OutcomeReachable, math.Inf(1), 0},
	} {
		drawn := 0
		for range reviews {
			r := event.Record{ID: uuid.Must(uuid.NewV7()).String(), CheckType: c.kind, Outcome: c.outcome, SourceURLs: c.sources}
			is, err := event.DrawnForOpinion(r, "https://www.maple.co.uk/apply")
			require.NoError(t, err)
			if is {
				drawn++
			}
		}
		require.InDelta(t, reviews/c.one, drawn, c.within, name)
	}
}

func TestDifferencesNameFactsAndOutcome(t *testing.T) {
	yes, a, b := true, api.UnknownFacts(), api.UnknownFacts()
	b.Remote, b.Languages = &yes, []string{"English"}
	first := api.VerificationEvent{Outcome: api.OutcomeVerified, Facts: &a}
	require.Empty(t, event.Differences(first, first))
	require.Equal(t, []string{"remote", "languages"}, event.Differences(first, api.VerificationEvent{Outcome: api.OutcomeVerified, Facts: &b}))
	require.Equal(t, append([]string{"outcome"}, api.FactNames...), event.Differences(first, api.VerificationEvent{Outcome: api.OutcomeClosed}))
}
