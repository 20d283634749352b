package snapshot

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listingtest"
)

func TestCountsMatchTheOracle(t *testing.T) {
	records := listingtest.Records(17, 400, now)
	snapshot := build(t, empty, records, 1)
	for _, at := range []time.Time{now, now.Add(-5 * 24 * time.Hour), now.Add(10 * 24 * time.Hour),
		now.Add(api.FreshnessWindow + time.Hour)} {
		all := listingtest.Published(records, at)
		statuses := map[api.Category]map[api.VerificationStatus]int{}
		for _, c := range api.Categories {
			statuses[c] = map[api.VerificationStatus]int{api.Verified: 0, api.Stale: 0, api.NeedsReview: 0, api.Unverified: 0}
		}
		set := api.FreeSet{Records: len(wantFree(all)), Limit: 10, Published: len(all)}
		for _, o := range all {
			statuses[o.Category][o.Verification.Status]++
			switch {
			case o.Verification.Status == api.Unverified:
				set.NeverReviewed++
			case o.Verification.Status == api.NeedsReview:
				set.NeedsReview++
			case o.Verification.Status == api.Stale:
				set.Stale++
			case o.Facts.ApplicationStatus != api.ApplicationOpen:
				set.NotOpen++
			default:
				set.BeyondLimit++
			}
		}
		set.BeyondLimit -= set.Records
		view := snapshot.At(at)
		require.Equal(t, set, view.FreeSet())
		for _, s := range view.StatusCounts() {
			require.Equal(t, statuses[s.Category], s.Statuses, s.Category)
		}
		for _, within := range []time.Duration{0, time.Microsecond, 7 * 24 * time.Hour, api.FreshnessWindow} {
			due := 0
			for _, o := range listingtest.Published(records, at.Add(within)) {
				if o.Verification.Status != api.Verified {
					due++
				}
			}
			require.Equal(t, due, view.Due(within))
		}
	}
	require.Zero(t, empty.At(now).Due(0))
	require.Zero(t, empty.At(now).StatusCounts()[0].Total())
	require.Equal(t, api.FreeSet{Limit: 10}, empty.At(now).FreeSet())
}

func TestOverviewMatchesTheOracle(t *testing.T) {
	records := listingtest.Records(17, 400, now)
	view := build(t, empty, records, 1).At(now)
	all := listingtest.Published(records, now)
	countries := map[string]int{}
	var last time.Time
	for _, o := range all {
		for _, at := range []*time.Time{o.PublishedAt, o.Verification.LastCheckedAt} {
			if at != nil && at.After(last) {
				last = *at
			}
		}
		eligible := map[string]bool{}
		for _, c := range o.Facts.CountryEligibility {
			if c.Status == api.Eligible {
				eligible[c.Country] = true
			}
		}
		for country := range eligible {
			countries[country]++
		}
	}
	overview := view.Overview()
	require.Equal(t, now, overview.GeneratedAt)
	require.True(t, last.Equal(*overview.LastChangeAt), "want %s, got %s", last, overview.LastChangeAt)
	require.Len(t, overview.Countries, len(countries))
	for _, c := range overview.Countries {
		require.Equal(t, countries[c.Country], c.Records, c.Country)
	}
	for range 20 { // the order of a map differs each time
		require.True(t, slices.IsSortedFunc(view.Overview().Countries, func(a, b api.CountryCount) int {
			return cmp.Or(b.Records-a.Records, strings.Compare(a.Country, b.Country))
		}), "most records first")
	}
	sum := 0
	for _, c := range overview.Categories {
		for _, n := range c.Statuses {
			sum += n
		}
	}
	require.Equal(t, len(all), sum)

	var example api.Opportunity
	require.NoError(t, json.Unmarshal(overview.Example, &example))
	require.Equal(t, wantFree(all)[0].ID, example.ID)

	none := empty.At(now).Overview()
	require.Nil(t, none.LastChangeAt)
	require.Nil(t, none.Example)
	require.Empty(t, none.Countries)
}
