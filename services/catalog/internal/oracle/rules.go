package oracle

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// List returns the whole result for the parameters v, in list order. all must be in list order.
func List(all []api.Opportunity, tier api.Tier, v url.Values) []api.Opportunity {
	if !tier.AllRecords() {
		all = Free(all)
	}
	var out []api.Opportunity
	for _, o := range all {
		if matches(o, v) {
			out = append(out, o)
		}
	}
	return out
}

// Free returns the records that the free tier sees, in list order.
func Free(all []api.Opportunity) []api.Opportunity {
	var set []api.Opportunity
	for _, o := range all {
		if o.Verification.Status == api.Verified && o.Facts.ApplicationStatus == api.ApplicationOpen {
			set = append(set, o)
		}
	}
	slices.SortFunc(set, func(a, b api.Opportunity) int {
		return cmp.Or(a.PublishedAt.Compare(*b.PublishedAt), strings.Compare(a.ID, b.ID))
	})
	set = set[:min(10, len(set))]
	slices.SortFunc(set, inListOrder)
	return set
}

func inListOrder(a, b api.Opportunity) int {
	x, y := a.Verification.LastCheckedAt, b.Verification.LastCheckedAt
	switch {
	case x == nil && y != nil:
		return 1
	case x != nil && y == nil:
		return -1
	case x != nil && !x.Equal(*y):
		return y.Compare(*x)
	}
	return strings.Compare(a.ID, b.ID)
}

func matches(o api.Opportunity, v url.Values) bool {
	equal := func(name string, fact *bool) bool {
		return v.Get(name) == "" || fact != nil && strconv.FormatBool(*fact) == v.Get(name)
	}
	var verified *bool
	if o.Verification.ReviewCount > 0 {
		verified = ptr(o.Verification.Status == api.Verified)
	}
	for _, b := range api.BoolFacts {
		if !equal(b.Param, *b.Value(&o.Facts)) {
			return false
		}
	}
	return equal("verified", verified) && (v.Get("category") == "" || v.Get("category") == string(o.Category)) &&
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
