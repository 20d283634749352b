package snapshot

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listingtest"
)

// wantList applies the specification's rules to all, which is in list order, and returns the whole result for the parameters v
// in list order. It shares no code with the snapshot.
func wantList(all []api.Opportunity, tier api.Tier, v url.Values) []api.Opportunity {
	if !tier.AllRecords() {
		all = wantFree(all)
	}
	var out []api.Opportunity
	for _, o := range all {
		if matches(o, v) {
			out = append(out, o)
		}
	}
	return out
}

// wantFree returns the records that the free tier sees: of the verified and open ones, the ten that were published first.
func wantFree(all []api.Opportunity) []api.Opportunity {
	set := slices.DeleteFunc(slices.Clone(all), func(o api.Opportunity) bool {
		return o.Verification.Status != api.Verified || o.Facts.ApplicationStatus != api.ApplicationOpen
	})
	slices.SortFunc(set, func(a, b api.Opportunity) int {
		return cmp.Or(a.PublishedAt.Compare(*b.PublishedAt), strings.Compare(a.ID, b.ID))
	})
	set = set[:min(10, len(set))]
	slices.SortFunc(set, listingtest.InListOrder)
	return set
}

func matches(o api.Opportunity, v url.Values) bool {
	equal := func(name string, fact *bool) bool {
		return v.Get(name) == "" || fact != nil && strconv.FormatBool(*fact) == v.Get(name)
	}
	var reviewed *bool
	if verified := o.Verification.Status == api.Verified; o.Verification.ReviewCount > 0 {
		reviewed = &verified
	}
	for _, b := range api.BoolFacts {
		if !equal(b.Param, *b.Value(&o.Facts)) {
			return false
		}
	}
	return equal("verified", reviewed) && (v.Get("category") == "" || v.Get("category") == string(o.Category)) &&
		checkedAfter(o, v.Get("checked_after")) && resident(o, v.Get("country"), v.Get("province"))
}

func checkedAfter(o api.Opportunity, from string) bool {
	if from == "" {
		return true
	}
	t, err := time.Parse(time.DateOnly, from)
	if err != nil {
		t, _ = time.Parse(time.RFC3339, from)
	}
	return o.Verification.LastCheckedAt != nil && !o.Verification.LastCheckedAt.Before(t)
}

func resident(o api.Opportunity, country, province string) bool {
	if country == "" {
		return true
	}
	for _, c := range o.Facts.CountryEligibility {
		if !strings.EqualFold(c.Country, country) || c.Status != api.Eligible {
			continue
		}
		if province == "" {
			return true
		}
		code := "CA-" + strings.TrimPrefix(strings.ToUpper(province), "CA-")
		if slices.Contains(c.ExcludedRegions, code) {
			return false
		}
		return len(c.SourceURLs) > 0 && (slices.Contains(c.IncludedRegions, code) || c.AllRegions != nil && *c.AllRegions)
	}
	return false
}
