package event_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/event"
)

func TestOneReviewInTwentyIsDrawn(t *testing.T) {
	const reviews = 100_000
	drawn := 0
	for range reviews {
		if event.DrawnForOpinion(uuid.Must(uuid.NewV7()).String()) {
			drawn++
		}
	}
	require.InDelta(t, reviews/20, drawn, reviews/200)
}

func TestDifferencesNameFactsAndOutcome(t *testing.T) {
	yes, a, b := true, api.UnknownFacts(), api.UnknownFacts()
	b.Remote, b.Languages = &yes, []string{"English"}
	first := api.VerificationEvent{Outcome: api.OutcomeVerified, Facts: &a}
	require.Empty(t, event.Differences(first, first))
	require.Equal(t, []string{"remote", "languages"}, event.Differences(first, api.VerificationEvent{Outcome: api.OutcomeVerified, Facts: &b}))
	require.Equal(t, append([]string{"outcome"}, api.FactNames...), event.Differences(first, api.VerificationEvent{Outcome: api.OutcomeClosed}))
}
