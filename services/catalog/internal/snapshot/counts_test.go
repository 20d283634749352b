package snapshot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/oracle"
)

func TestStatusCountsMatchTheOracle(t *testing.T) {
	records := oracle.Records(17, 400, now)
	snapshot := build(t, empty, records, 1)
	for _, at := range []time.Time{now, now.Add(-5 * 24 * time.Hour), now.Add(api.FreshnessWindow)} {
		want := map[api.Category]map[api.VerificationStatus]int{}
		for _, c := range api.Categories {
			want[c] = map[api.VerificationStatus]int{api.Verified: 0, api.Stale: 0, api.NeedsReview: 0, api.Unverified: 0}
		}
		for _, o := range oracle.Published(records, at) {
			want[o.Category][o.Verification.Status]++
		}
		for _, s := range snapshot.At(at).StatusCounts() {
			require.Equal(t, want[s.Category], s.Count, s.Category)
		}
		for _, within := range []time.Duration{0, time.Microsecond, 7 * 24 * time.Hour, api.FreshnessWindow} {
			due := 0
			for _, o := range oracle.Published(records, at.Add(within)) {
				if o.Verification.Status != api.Verified {
					due++
				}
			}
			require.Equal(t, due, snapshot.At(at).Due(within))
		}
	}
	require.Zero(t, empty.At(now).Due(0))
	require.Zero(t, empty.At(now).StatusCounts()[0].Total())
}

func TestFreeSetCountsExcludedRecordsByReason(t *testing.T) {
	records := oracle.Records(17, 400, now)
	snapshot := build(t, empty, records, 1)
	for _, at := range []time.Time{now, now.Add(-5 * 24 * time.Hour), now.Add(10 * 24 * time.Hour), now.Add(api.FreshnessWindow + time.Hour)} {
		all := oracle.Published(records, at)
		want := api.FreeSet{Records: len(oracle.Free(all)), Limit: 10, Published: len(all)}
		qualified := 0
		for _, o := range all {
			switch {
			case o.Verification.Status == api.Unverified:
				want.NeverReviewed++
			case o.Verification.Status == api.NeedsReview:
				want.NeedsReview++
			case o.Verification.Status == api.Stale:
				want.Stale++
			case o.Facts.ApplicationStatus != api.ApplicationOpen:
				want.NotOpen++
			default:
				qualified++
			}
		}
		want.BeyondLimit = qualified - want.Records
		require.Equal(t, want, snapshot.At(at).FreeSet())
		sum := want.Records + want.NeverReviewed + want.NeedsReview + want.Stale + want.NotOpen + want.BeyondLimit
		require.Equal(t, want.Published, sum)
	}
	require.Equal(t, api.FreeSet{Limit: 10}, empty.At(now).FreeSet())
}
