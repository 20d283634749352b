package snapshot

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"opportunity.internal/pkg/api"
)

// StatusCounts counts the records of each category, in the order of api.Categories. It costs a few
// bitmap intersections.
func (v View) StatusCounts() []api.CategoryCounts {
	end, cutoff := uint32(len(v.s.order)), uint32(v.cutoff) //nolint:gosec // positions are below 2^32
	all := make([]api.CategoryCounts, len(api.Categories))
	for i, category := range api.Categories {
		key := setKey{category: int8(i + 1)} //nolint:gosec // 4 categories
		total := span{v.s.set(key), 0, end}.count()
		key.condition = undisputed
		undisputedSet := v.s.set(key)
		verified, stale := span{undisputedSet, 0, cutoff}.count(), span{undisputedSet, cutoff, end}.count()
		key.condition = disputed
		disputed := span{v.s.set(key), 0, end}.count()
		all[i] = api.CategoryCounts{Category: category, Statuses: map[api.VerificationStatus]int{
			api.Verified: verified, api.Stale: stale, api.NeedsReview: disputed,
			api.Unverified: total - verified - stale - disputed,
		}}
	}
	return all
}

// Due returns the number of records that are not verified after the duration within, without
// further reviews.
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
		set.NeverReviewed += s.Statuses[api.Unverified]
		set.NeedsReview += s.Statuses[api.NeedsReview]
		set.Stale += s.Statuses[api.Stale]
		verified += s.Statuses[api.Verified]
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

// Overview describes the published records. Its cost grows with their number, so it is not for
// consumers' requests.
func (v View) Overview() api.CatalogOverview {
	o := api.CatalogOverview{GeneratedAt: v.at, LastChangeAt: v.lastChange(), Categories: v.StatusCounts(),
		Countries: []api.CountryCount{}}
	for code, records := range v.s.index.countries {
		n := int(records.GetCardinality()) //nolint:gosec // below 2^32
		o.Countries = append(o.Countries, api.CountryCount{Country: string(code[:]), Records: n})
	}
	slices.SortFunc(o.Countries, func(a, b api.CountryCount) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Country, b.Country))
	})
	if free := v.free(); len(free) > 0 {
		o.Example = v.append(nil, v.s.order[free[0]])
	}
	return o
}

func (v View) lastChange() *time.Time {
	latest := int64(never)
	for _, r := range v.s.order {
		latest = max(latest, r.checked)
		if r.published != math.MaxInt64 { // without a time of publication
			latest = max(latest, r.published)
		}
	}
	if latest == never {
		return nil
	}
	at := time.Unix(0, latest).UTC()
	return &at
}
