package review_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listingtest"
	"opportunity.internal/services/catalog/internal/review"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// TestReasonsAgreeWithStatus compares reasons and status at many times, including the limits of
// freshness.
func TestReasonsAgreeWithStatus(t *testing.T) {
	seen := map[string]int{}
	for i, o := range listingtest.Records(7, 2000, now) {
		r := review.Record{Entry: o.Entry}
		if o.Summary != nil {
			r.Summary = *o.Summary
		}
		if last := r.Summary.LastCheckedAt; last != nil && i%3 == 0 {
			at := last.Add(time.Duration(i%5-1) * time.Microsecond)
			r.Entry.ChangedAt = &at
			if i%2 == 0 {
				r.Edits = []api.ListingEdit{{At: last.Add(-time.Hour), Fields: []string{"company"}},
					{At: at, Actor: "ann", Fields: []string{"summary", "facts"}}}
			}
		}
		instants := []time.Time{now, now.Add(-20 * 24 * time.Hour), now.Add(20 * 24 * time.Hour)}
		if last := r.Summary.LastCheckedAt; last != nil {
			end := last.Add(api.FreshnessWindow)
			instants = append(instants, end, end.Add(-time.Microsecond), end.Add(time.Microsecond))
		}
		for _, at := range instants {
			status := r.Summary.StatusAt(r.Entry.ChangedAt, at)
			reasons := review.ReasonsAt(r.Reasons(), at)
			require.Equal(t, status != api.Verified, len(reasons) > 0, "%s at %s: %+v", status, at, r)
			why := map[string]bool{}
			for _, reason := range reasons {
				why[reason.Why] = true
				require.False(t, reason.At.Before(reasons[0].At))
				if reason.Why == api.DueEdit && reason.Actor != "" {
					require.Equal(t, []string{"facts"}, reason.Fields)
				}
				seen[reason.Why]++
			}
			doubted := why[api.DueReview] || why[api.DueClosed] || why[api.DueLinkCheck] || why[api.DueEdit]
			require.Equal(t, status == api.NeedsReview, doubted)
			require.Equal(t, status == api.Unverified, why[api.DueNeverReviewed])
			require.True(t, status != api.Stale || why[api.DueStale])
		}
	}
	for _, why := range []string{api.DueNeverReviewed, api.DueStale, api.DueReview, api.DueClosed, api.DueLinkCheck,
		api.DueEdit} {
		require.NotZero(t, seen[why], why)
	}
}

func TestVerifiedRecordIsDueAfterFreshUntil(t *testing.T) {
	last := now.Add(-10 * 24 * time.Hour)
	r := review.Record{Summary: api.Summary{LastCheckedAt: &last, LastOutcome: api.OutcomeVerified}}
	end := now.Add(4 * 24 * time.Hour)
	require.Empty(t, review.ReasonsAt(r.Reasons(), end))
	require.Equal(t, []api.DueReason{{Why: api.DueStale, At: end}},
		review.ReasonsAt(r.Reasons(), end.Add(time.Microsecond)))

	r.Summary.LastOutcome = api.OutcomeClosed
	r.Summary.Doubt = &api.Doubt{EventID: "e", CheckType: api.FactualReview, Outcome: api.OutcomeClosed,
		CheckedAt: last, Note: "gone"}
	require.Equal(t, []api.DueReason{{Why: api.DueClosed, At: end, Outcome: api.OutcomeClosed, EventID: "e",
		Note: "gone"}}, r.Reasons())
}
