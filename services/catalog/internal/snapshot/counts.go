package snapshot

import (
	"sort"
	"time"

	"opportunity.internal/pkg/api"
)

// StatusCounts counts the published records of a category by status.
type StatusCounts struct {
	Category api.Category
	Count    map[api.VerificationStatus]int // has every status, including those with 0 records
}

// Total returns the number of records.
func (s StatusCounts) Total() (n int) {
	for _, count := range s.Count {
		n += count
	}
	return n
}

// StatusCounts counts the records of each category, in the order of api.Categories. It costs a few bitmap intersections.
func (v View) StatusCounts() []StatusCounts {
	end, cutoff := uint32(len(v.s.order)), uint32(v.cutoff) //nolint:gosec // positions are below 2^32
	all := make([]StatusCounts, len(api.Categories))
	for i, category := range api.Categories {
		key := setKey{category: int8(i + 1)} //nolint:gosec // 4 categories
		total := span{v.s.set(key), 0, end}.count()
		key.condition = undisputed
		undisputedSet := v.s.set(key)
		verified, stale := span{undisputedSet, 0, cutoff}.count(), span{undisputedSet, cutoff, end}.count()
		key.condition = disputed
		disputed := span{v.s.set(key), 0, end}.count()
		all[i] = StatusCounts{category, map[api.VerificationStatus]int{
			api.Verified: verified, api.Stale: stale, api.NeedsReview: disputed, api.Unverified: total - verified - stale - disputed,
		}}
	}
	return all
}

// Due returns the number of records that are not verified after the duration within, without further reviews.
func (v View) Due(within time.Duration) int {
	stale := unixNanos(v.at.Add(within - api.FreshnessWindow))
	fresh := sort.Search(len(v.s.checked), func(i int) bool { return v.s.checked[i] < stale })
	verified := span{v.s.index.undisputed, 0, uint32(fresh)}.count() //nolint:gosec // positions are below 2^32
	return len(v.s.order) - verified
}

// FreeSet counts the records in the free set, and the excluded ones by reason.
func (v View) FreeSet() api.FreeSet {
	set := api.FreeSet{Records: len(v.free()), Limit: FreeSetSize}
	verified := 0
	for _, s := range v.StatusCounts() {
		set.Published += s.Total()
		set.NeverReviewed += s.Count[api.Unverified]
		set.NeedsReview += s.Count[api.NeedsReview]
		set.Stale += s.Count[api.Stale]
		verified += s.Count[api.Verified]
	}
	qualified := 0
	for _, at := range v.s.index.candidates {
		if int(at) < v.cutoff {
			qualified++
		}
	}
	set.NotOpen, set.BeyondLimit = verified-qualified, qualified-set.Records
	return set
}
