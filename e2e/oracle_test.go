package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// TestFilters compares lists with the naive rules, with random parameters and page sizes.
func TestFilters(t *testing.T) {
	t.Parallel()
	d := shared(t)
	commercial := spend(d, api.Commercial)
	all := list(t, d.url, commercial.next(t), listPath+"?limit=100")
	require.Greater(t, len(all), 60)
	require.Equal(t, expect(all, nil), ids(all), "order")
	choices := values(all)
	names := slices.Sorted(maps.Keys(choices))

	check := func(t testing.TB, keys *spender, from []api.Opportunity, path string, params map[string]string, limit int) {
		query := url.Values{}
		for name, value := range params {
			query.Set(name, value)
		}
		if _, ok := params["province"]; ok && !query.Has("country") {
			query.Set("country", "CA")
		}
		query.Set("limit", strconv.Itoa(limit))
		want, page := expect(from, params), 1
		for got := []string{}; ; page++ {
			query.Set("page", strconv.Itoa(page))
			body := read[api.OpportunityList](t, d.url, keys.next(t), path+"?"+query.Encode())
			got = append(got, ids(body.Data)...)
			effective := min(limit, keys.tier.PageSize)
			require.Equal(t, api.Pagination{
				Page: page, Limit: effective, Total: len(want), HasMore: page*effective < len(want), Next: body.Pagination.Next,
			}, body.Pagination, query)
			if body.Pagination.Next == nil {
				require.Equal(t, want, got, query)
				return
			}
			next, err := url.Parse(*body.Pagination.Next)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(*body.Pagination.Next, d.url+path+"?"), *body.Pagination.Next)
			followed := next.Query()
			require.Equal(t, strconv.Itoa(page+1), followed.Get("page"))
			require.Equal(t, strconv.Itoa(effective), followed.Get("limit"))
			for name := range params {
				require.True(t, strings.EqualFold(query.Get(name), followed.Get(name)) || name == "province" ||
					name == "checked_after",
					"%s is %q in next, not %q", name, followed.Get(name), query.Get(name))
			}
			query = followed
		}
	}
	allowed := func(params map[string]string) bool { // a province of another country is an error, tested elsewhere
		country, ok := params["country"]
		return !ok || params["province"] == "" || strings.EqualFold(country, "CA")
	}

	t.Run("random", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			params := map[string]string{}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID).Draw(r, "names") {
				params[name] = rapid.SampledFrom(choices[name]).Draw(r, name)
			}
			if !allowed(params) {
				delete(params, "province")
			}
			path := rapid.SampledFrom([]string{listPath, "/api/jobs"}).Draw(r, "path")
			check(t, commercial, all, path, params, rapid.IntRange(7, 100).Draw(r, "limit"))
		})
	})
	t.Run("free", func(t *testing.T) {
		free, set := spend(d, api.Free), freeSet(all)
		require.Len(t, set, 10)
		check(t, free, set, listPath, nil, 10)
		check(t, free, set, listPath, nil, 100)
		check(t, free, set, "/api/jobs", nil, 3)
		for _, name := range names {
			for _, v := range choices[name] {
				check(t, free, set, listPath, map[string]string{name: v}, 10)
			}
		}
		for _, o := range all[:20] {
			want := 404
			if slices.Contains(ids(set), o.ID) {
				want = 200
			}
			require.Equal(t, want, get(t, d.url, free.next(t), listPath+"/"+o.ID).StatusCode, o.ID)
		}
	})
	t.Run("tier caps", func(t *testing.T) {
		body := read[api.OpportunityList](t, d.url, d.issue(t, api.Developer).Key, listPath+"?limit=100")
		require.Equal(t, 50, body.Pagination.Limit)
		require.Len(t, body.Data, 50)
		require.Equal(t, fmt.Sprintf("%s/api/v1/opportunities?page=2&limit=50", d.url), *body.Pagination.Next)
	})
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
