package curation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/listingfile"
)

func TestFreshnessCountsNowThePastAndTheDaysAhead(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s stores) {
		file := apitest.Lines("a", "b", "c", "d", "e")
		for i := range 4 {
			file[i].Visibility = listingfile.Published
		}
		_, err := s.listings.Import(t.Context(), "ann", apitest.File(file), false)
		require.NoError(t, err)
		// a: due in two days, b: stale, c: closed, so due later, d: never reviewed
		for i, days := range map[int]int{0: 12, 1: 20, 2: 1} {
			checked, outcome := at.AddDate(0, 0, -days), api.OutcomeVerified
			if i == 2 {
				outcome = api.OutcomeClosed
			}
			sum := api.Summary{Slug: file[i].ID, Sequence: int64(i + 1), LastCheckedAt: &checked, LastOutcome: outcome}
			if i == 0 {
				facts := api.UnknownFacts()
				facts.Remote, facts.Languages, facts.ApplicationStatus = new(true), []string{"en"}, api.ApplicationOpen
				sum.Facts, sum.Unquoted = &facts, []string{"languages"}
				sum.ApplicationLink = &api.ApplicationLink{Outcome: api.OutcomeBlocked, CheckedAt: checked}
			}
			require.NoError(t, s.listings.Save(t.Context(), feed.Cursor{},
				[]api.EncodedSummary{apitest.Encoded(sum)[0]}, feed.Cursor{}))
		}
		require.NoError(t, s.SampleFreshness(t.Context()))
		require.NoError(t, s.SampleFreshness(t.Context()), "one sample for each day")
		require.NoError(t, s.db.Exec("INSERT INTO freshness_samples VALUES ('2026-11-18', 1, 2, 3, 4), ('2026-11-19', 5, "+
			"6, 7, 8)").Error)
		f, err := s.Freshness(t.Context())
		require.NoError(t, err)
		require.Equal(t, api.FreshnessSample{Day: "2026-11-20", Verified: 1, Stale: 1, NeedsReview: 1, Unverified: 1},
			f.Now)
		require.Equal(t, []api.FreshnessSample{
			{Day: "2026-11-18", Verified: 1, Stale: 2, NeedsReview: 3, Unverified: 4},
			{Day: "2026-11-19", Verified: 5, Stale: 6, NeedsReview: 7, Unverified: 8},
		}, f.Days)
		require.Equal(t, map[api.Outcome]int{"": 3, api.OutcomeBlocked: 1}, f.Links)
		require.Equal(t, [2]int{3, 2}, [2]int{f.Facts, f.Quoted})
		require.Len(t, f.Ahead, 15)
		require.Equal(t, api.DueDay{Day: "2026-11-20", Due: 2, Target: 3}, f.Ahead[0],
			"a Friday: the record of Sunday is reviewed today")
		require.Equal(t, api.DueDay{Day: "2026-11-22", Due: 1}, f.Ahead[2])
		require.Equal(t, at, f.GeneratedAt.Truncate(time.Microsecond))
		var days int64
		require.NoError(t, s.db.Table("freshness_samples").Count(&days).Error)
		require.EqualValues(t, 3, days)
	})
}
