package snapshot

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listingtest"
)

// wantList applies the specification's rules to all, which is in list order, and returns the whole
// result for the parameters v in list order. It shares no code with the snapshot.
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

// wantFree returns the records that the free tier sees: of the verified and open ones, the ten that
// were published first.
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
		checkedAfter(o, v.Get("checked_after")) && resident(o, v.Get("country"), v.Get("province")) && searched(o, v)
}

// searched applies the conditions that only the search takes.
func searched(o api.Opportunity, v url.Values) bool {
	sub := ""
	if o.Subcategory != nil {
		sub = *o.Subcategory
	}
	speaks := func(l string) bool { return begin(v.Get("language"), l) }
	return begin(v.Get("q"), o.Company.Name+"\n"+sub+"\n"+o.Summary) &&
		(v.Get("application_status") == "" || v.Get("application_status") == string(o.Facts.ApplicationStatus)) &&
		(v.Get("language") == "" || slices.ContainsFunc(o.Facts.Languages, speaks)) &&
		(v.Get("pay_unit") == "" || o.Facts.Pay != nil && string(o.Facts.Pay.Unit) == v.Get("pay_unit")) &&
		(v.Get("subcategory") == "" || slices.Equal(words(sub), words(v.Get("subcategory"))))
}

// begin reports whether each word of q begins a word of text.
func begin(q, text string) bool {
	for _, w := range words(q) {
		if !slices.ContainsFunc(words(text), func(of string) bool { return strings.HasPrefix(of, w) }) {
			return false
		}
	}
	return true
}

func words(text string) (all []string) {
	var kept []rune
	for _, r := range cases.Fold().String(norm.NFKD.String(text)) {
		if as, ok := spelled[r]; ok {
			kept = append(kept, []rune(as)...)
		} else if !unicode.In(r, unicode.M, unicode.Cf) {
			kept = append(kept, r)
		}
	}
	return strings.FieldsFunc(string(kept), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N) })
}

var spelled = map[rune]string{'œ': "oe", 'æ': "ae", 'ø': "o", 'đ': "d", 'ð': "d", 'ł': "l", 'þ': "th", 'ħ': "h",
	'ı': "i"}

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
		return len(c.SourceURLs) > 0 && (slices.Contains(c.IncludedRegions, code) || c.AllRegions != nil &&
			*c.AllRegions)
	}
	return false
}
