package e2e

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// The rules of the list, applied to decoded records as naively as they are written: no index, no
// sharing with the code under test.

// passes reports whether a record passes one parameter.
func passes(o api.Opportunity, name, value, province string) bool {
	f := o.Facts
	switch name {
	case "country":
		return slices.ContainsFunc(f.CountryEligibility, func(c api.CountryEligibility) bool {
			return strings.EqualFold(c.Country, value) && c.Status == api.Eligible
		})
	case "province":
		region := "CA-" + strings.ToUpper(province)
		return slices.ContainsFunc(f.CountryEligibility, func(c api.CountryEligibility) bool {
			return c.Country == "CA" && c.Status == api.Eligible && len(c.SourceURLs) > 0 &&
				!slices.Contains(c.ExcludedRegions, region) &&
				(slices.Contains(c.IncludedRegions, region) || c.AllRegions != nil && *c.AllRegions)
		})
	case "verified":
		if value == "true" {
			return o.Verification.Status == api.Verified
		}
		return o.Verification.ReviewCount > 0 && o.Verification.Status != api.Verified
	case "category":
		return string(o.Category) == value
	case "checked_after":
		after, err := time.Parse(time.RFC3339, value)
		if err != nil {
			after, _ = time.Parse(time.DateOnly, value)
		}
		return o.Verification.LastCheckedAt != nil && !o.Verification.LastCheckedAt.Before(after)
	}
	i := slices.IndexFunc(api.BoolFacts[:], func(b api.BoolFact) bool { return b.Param == name })
	fact := *api.BoolFacts[i].Value(&o.Facts)
	return fact != nil && strconv.FormatBool(*fact) == value
}

// expect returns the ids of a list with these parameters, in order.
func expect(all []api.Opportunity, params map[string]string) []string {
	var found []api.Opportunity
	for _, o := range all {
		ok := true
		for name, value := range params {
			ok = ok && passes(o, name, value, strings.TrimPrefix(strings.ToUpper(value), "CA-"))
		}
		if ok {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b api.Opportunity) int {
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
	})
	return ids(found)
}

// freeSet returns the records that the free tier sees: of the verified and open ones, the ten that
// were published first.
func freeSet(all []api.Opportunity) []api.Opportunity {
	var fresh []api.Opportunity
	for _, o := range all {
		if o.Verification.Status == api.Verified && o.Facts.ApplicationStatus == api.ApplicationOpen {
			fresh = append(fresh, o)
		}
	}
	slices.SortFunc(fresh, func(a, b api.Opportunity) int {
		return cmp.Or(a.PublishedAt.Compare(*b.PublishedAt), strings.Compare(a.ID, b.ID))
	})
	return fresh[:min(10, len(fresh))]
}

func ids(records []api.Opportunity) []string {
	out := []string{}
	for _, o := range records {
		out = append(out, o.ID)
	}
	return out
}

// values are the values that the tests give to each parameter.
func values(all []api.Opportunity) map[string][]string {
	booleans := []string{"true", "false"}
	edge := all[len(all)/3].Verification.LastCheckedAt // of a record: the bound is inclusive
	choices := map[string][]string{
		"country":  {"CA", "ca", "US", "de", "ZZ"},
		"province": {"ON", "on", "CA-QC", "ca-nu", "PE", "YT"},
		"verified": booleans,
		"category": {"online", "sell", "local", "host"},
		"checked_after": {
			edge.Format(time.RFC3339), edge.Format(time.DateOnly), edge.In(time.FixedZone("", -5*3600)).Format(time.RFC3339),
			"1999-01-01",
		},
	}
	for _, b := range api.BoolFacts {
		choices[b.Param] = booleans
	}
	return choices
}

// spender provides keys of a tier. It issues a new one before the last one reaches its limit per
// minute.
type spender struct {
	d    deployment
	tier api.Limits
	name api.Tier
	key  string
	left int
}

func (s *spender) next(t testing.TB) string {
	if s.left == 0 {
		s.key, s.left = s.d.issue(t, s.name).Key, s.tier.PerMinute
	}
	s.left--
	return s.key
}

func spend(d deployment, tier api.Tier) *spender {
	return &spender{d: d, tier: api.Tiers[tier.Rank()].Limits, name: tier}
}

// TestFilters compares lists with the naive rules: with each value of each parameter, alone and with
// another one, for a tier that sees all records and for the free set.
func TestFilters(t *testing.T) {
	t.Parallel()
	d := shared(t)
	commercial, free := spend(d, api.Commercial), spend(d, api.Free)
	all := list(t, d.url, commercial.next(t), listPath+"?limit=100")
	require.Greater(t, len(all), 60)
	set := freeSet(all)
	require.Len(t, set, 10)
	check := func(keys *spender, from []api.Opportunity, path string, params map[string]string, limit int) {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, value := range params {
			query.Set(name, value)
		}
		if _, ok := params["province"]; ok {
			query.Set("country", "CA")
		}
		got := []string{}
		for _, page := range walk(t, d.url, keys.next(t), path+"?"+query.Encode(), listPage) {
			got = append(got, ids(page.Data)...)
		}
		require.Equal(t, expect(from, params), got, "%s?%s", path, query.Encode())
	}
	check(spend(d, api.Commercial), all, "/api/jobs", nil, 7)
	check(spend(d, api.Free), set, "/api/jobs", nil, 3)
	for name, choices := range values(all) {
		for _, value := range choices {
			check(free, set, listPath, map[string]string{name: value}, 10)
			check(commercial, all, listPath, map[string]string{name: value}, 100)
			check(commercial, all, listPath, map[string]string{"remote": "true", name: value}, 100)
		}
	}
	for _, o := range all[:20] {
		want := http.StatusNotFound
		if slices.Contains(ids(set), o.ID) {
			want = http.StatusOK
		}
		require.Equal(t, want, get(t, d.url, free.next(t), listPath+"/"+o.ID).StatusCode, o.ID)
	}
}

// TestRecordsAgree checks that each record is the same in the list and on its own, and that its
// events result in its verification.
func TestRecordsAgree(t *testing.T) {
	t.Parallel()
	d := shared(t)
	keys := spend(d, api.Commercial)
	for _, o := range list(t, d.url, keys.next(t), listPath+"?limit=100") {
		detail := read[api.OpportunityDetail](t, d.url, keys.next(t), listPath+"/"+o.ID)
		require.Equal(t, o, detail.Data)

		var events []api.VerificationEvent
		for _, p := range walk(t, d.url, keys.next(t), listPath+"/"+o.ID+"/history?limit=100", eventPage) {
			events = append(events, p.Data...)
		}
		require.Len(t, events, o.Verification.HistoryCount, o.ID)
		require.True(t, slices.IsSortedFunc(events,
			func(a, b api.VerificationEvent) int { return b.CheckedAt.Compare(a.CheckedAt) }))
		var reviews, links []api.VerificationEvent
		for _, e := range events {
			require.Equal(t, o.ID, e.Slug)
			if e.CheckType == api.FactualReview {
				reviews = append(reviews, e)
			} else {
				links = append(links, e)
			}
		}
		require.Len(t, reviews, o.Verification.ReviewCount, o.ID)
		if len(reviews) > 0 {
			require.Equal(t, reviews[0].CheckedAt, *o.Verification.LastCheckedAt)
			require.Equal(t, reviews[len(reviews)-1].CheckedAt, *o.Verification.FirstCheckedAt)
			if i := slices.IndexFunc(reviews, func(e api.VerificationEvent) bool { return e.Facts != nil }); i >= 0 {
				want := *reviews[i].Facts
				if slices.ContainsFunc(reviews[:i], func(e api.VerificationEvent) bool { return e.Outcome == api.OutcomeClosed }) {
					want.ApplicationStatus = api.ApplicationClosed
				}
				require.Equal(t, want, o.Facts)
			}
		}
		if len(links) > 0 {
			require.Equal(t, api.ApplicationLink{Outcome: links[0].Outcome, CheckedAt: links[0].CheckedAt},
				*o.Verification.ApplicationLink)
		}
	}
}
