package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

// eligible reports whether a record is open to a country, or to a province of Canada with evidence.
func eligible(o api.Opportunity, country, region string) bool {
	return slices.ContainsFunc(o.Facts.CountryEligibility, func(c api.CountryEligibility) bool {
		return c.Country == country && c.Status == api.Eligible && (region == "" ||
			len(c.SourceURLs) > 0 && !slices.Contains(c.ExcludedRegions, region) &&
				(slices.Contains(c.IncludedRegions, region) || c.AllRegions != nil && *c.AllRegions))
	})
}

// filters are the rules of the list by query, applied to decoded records as naively as they are
// written: no index, no sharing with the code under test.
func filters(all []api.Opportunity) map[string]func(api.Opportunity) bool {
	edge := all[len(all)/3].Verification.LastCheckedAt // of a record: the bound is inclusive
	rules := map[string]func(api.Opportunity) bool{
		"":                       func(api.Opportunity) bool { return true },
		"country=ca":             func(o api.Opportunity) bool { return eligible(o, "CA", "") },
		"country=ZZ":             func(api.Opportunity) bool { return false },
		"country=CA&province=on": func(o api.Opportunity) bool { return eligible(o, "CA", "CA-ON") },
		"country=CA&province=CA-QC&remote=true": func(o api.Opportunity) bool {
			return eligible(o, "CA", "CA-QC") && o.Facts.Remote != nil && *o.Facts.Remote
		},
		"verified=true": func(o api.Opportunity) bool { return o.Verification.Status == api.Verified },
		"verified=false": func(o api.Opportunity) bool {
			return o.Verification.ReviewCount > 0 && o.Verification.Status != api.Verified
		},
		"checked_after=" + edge.Format(time.RFC3339): func(o api.Opportunity) bool {
			return o.Verification.LastCheckedAt != nil && !o.Verification.LastCheckedAt.Before(*edge)
		},
	}
	for _, category := range api.Categories {
		rules["category="+string(category)] = func(o api.Opportunity) bool { return o.Category == category }
	}
	for _, fact := range api.BoolFacts { // unknown matches neither value
		for _, want := range []bool{true, false} {
			rules[fmt.Sprintf("%s=%t", fact.Param, want)] = func(o api.Opportunity) bool {
				known := *fact.Value(&o.Facts)
				return known != nil && *known == want
			}
		}
	}
	return rules
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
	first := ids(fresh[:min(10, len(fresh))])
	return slices.DeleteFunc(slices.Clone(all), func(o api.Opportunity) bool { return !slices.Contains(first, o.ID) })
}

func ids(records []api.Opportunity) []string {
	out := []string{}
	for _, o := range records {
		out = append(out, o.ID)
	}
	return out
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

// TestFilters compares lists with the naive rules, for a tier that sees all records and for the
// free set.
func TestFilters(t *testing.T) {
	t.Parallel()
	d := shared(t)
	commercial, free := spend(d, api.Commercial), spend(d, api.Free)
	all := list(t, d.url, commercial.next(t), listPath+"?limit=100")
	require.Greater(t, len(all), 60)
	set := freeSet(all)
	require.Len(t, set, 10)
	require.Equal(t, ids(all), ids(list(t, d.url, spend(d, api.Commercial).next(t), "/api/jobs?limit=7")))
	require.Equal(t, set, list(t, d.url, spend(d, api.Free).next(t), "/api/jobs?limit=3"))
	for query, passes := range filters(all) {
		without := func(o api.Opportunity) bool { return !passes(o) }
		require.Equal(t, ids(slices.DeleteFunc(slices.Clone(all), without)),
			ids(list(t, d.url, commercial.next(t), listPath+"?limit=100&"+query)), query)
		require.Equal(t, ids(slices.DeleteFunc(slices.Clone(set), without)),
			ids(list(t, d.url, free.next(t), listPath+"?"+query)), query)
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

		events := walk[api.VerificationEvent](t, d.url, keys.next(t), listPath+"/"+o.ID+"/history?limit=100")
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

// TestWhatWasServedIsWhatIsKnownOfThen checks that `history show --at` returns what consumers saw
// at that time, even after later events.
func TestWhatWasServedIsWhatIsKnownOfThen(t *testing.T) {
	t.Parallel()
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none", generous)
	u.verb(t, listing("good-one"), "listings", "import", "-")
	key := u.issue(t, api.Commercial).Key
	type served struct {
		at           time.Time
		verification api.Verification
	}
	var seen []served
	serve := func(events int) {
		t.Helper()
		eventually(t, "the catalog has the event", func() bool {
			a := get(t, u.url, key, listPath+"/good-one")
			if a.StatusCode != http.StatusOK {
				return false
			}
			d := decode[api.OpportunityDetail](t, a)
			if d.Data.Verification.HistoryCount != events {
				return false
			}
			seen = append(seen, served{d.Meta.GeneratedAt, d.Data.Verification})
			return true
		})
	}
	serve(0)
	ago := func(days int) string {
		return time.Now().UTC().Add(-time.Duration(days) * 24 * time.Hour).Truncate(time.Second).Format(time.RFC3339)
	}
	verified := `"checkType":"review","outcome":"verified","facts":` + apitest.WholeFacts(`{"remote":true}`)
	for i, event := range []string{
		`"checkedAt":"` + ago(20) + `",` + verified,
		`"checkedAt":"` + ago(5) + `",` + verified,
		`"checkedAt":"` + ago(3) + `","checkType":"application-link","outcome":"closed"`,
		`"checkedAt":"` + ago(10) + `","checkType":"review","outcome":"needs-review"`, // late
		`"checkedAt":"` + ago(1) + `",` + verified,
	} {
		u.verb(t, `{"slug":"good-one","sourceUrls":["https://good.example/"],"note":"n",`+event+`}`, "events", "append", "-")
		serve(i + 1)
	}
	var states []api.VerificationStatus
	for _, s := range seen {
		at := s.at.Format(time.RFC3339Nano)
		then := verbJSON[api.HistorySnapshot](t, u.deployment, "history", "show", "good-one", "--at", at)
		require.Equal(t, s.verification, then.Verification, at)
		states = append(states, s.verification.Status)
	}
	require.Equal(t, []api.VerificationStatus{"unverified", "stale", "verified", "needs-review", "needs-review",
		"verified"}, states)
}
