package event_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/event"
)

func TestShareOfReviewsThatAreDrawn(t *testing.T) {
	const reviews = 20_000
	for name, c := range map[string]struct {
		sources     string
		kind        api.CheckType
		outcome     api.Outcome
		one, within float64
	}{
		"with a page of the platform": {`["https://list.example/best","https://help.maple.co.uk/who"]`,
			api.FactualReview, api.OutcomeVerified, 20, reviews / 200},
		"of third parties alone": {`["https://list.example/best","https://oak.co.uk"]`, api.FactualReview,
			api.OutcomeVerified, 4, reviews / 100},
		"not verified": {`["https://www.maple.co.uk"]`, api.FactualReview, api.OutcomeNeedsReview,
			math.Inf(1), 0},
		"no review": {`[]`, api.LinkCheck, api.OutcomeReachable, math.Inf(1), 0},
	} {
		drawn := 0
		for i := range reviews { // the draw depends on the id alone, so the result is always the same
			r := event.Record{ID: fmt.Sprint(i), CheckType: c.kind, Outcome: c.outcome,
				SourceURLs: c.sources}
			is, err := event.DrawnForOpinion(r, "https://www.maple.co.uk/apply")
			require.NoError(t, err)
			if is {
				drawn++
			}
		}
		require.InDelta(t, reviews/c.one, drawn, c.within, name)
	}
}

func TestDifferencesNameTheOutcomeFirst(t *testing.T) {
	first := opinion(func(*api.Facts) {})
	second := opinion(func(f *api.Facts) { f.Pay, f.Remote = nil, new(true) })
	second.Outcome = api.OutcomeClosed
	differs, _ := event.Differences(first, second, api.FactNames, nil)
	require.Equal(t, []string{"outcome", "remote", "pay"}, differs)
	second.Facts = nil
	differs, _ = event.Differences(first, second, api.FactNames, nil)
	require.Equal(t, []string{"outcome"}, differs)
}

// opinion is a verified review with texts in every fact that can have any.
func opinion(change func(*api.Facts)) api.VerificationEvent {
	f := api.UnknownFacts()
	f.CountryEligibility = []api.CountryEligibility{
		{Country: "CA", Status: api.Eligible, IncludedRegions: []string{"CA-ON", "CA-QC"},
			SourceURLs: []string{"https://a.example"}, Note: "Residents only"},
		{Country: "US", Status: api.Ineligible, SourceURLs: []string{"https://a.example"}},
	}
	f.Pay = &api.Pay{Minimum: 17, Maximum: 20, Currency: "CAD", Unit: api.PerHour, SourceURL: "https://a.example"}
	f.Languages, f.Requirements, f.ApplicationURL = []string{"English", "French"},
		[]string{"18 years or older", "A phone"}, new("https://a.example/apply")
	f.RiskIndicators = []api.RiskIndicator{{Code: "fees", Note: "A fee of 5 CAD", SourceURL: "https://a.example"}}
	change(&f)
	return api.VerificationEvent{Outcome: api.OutcomeVerified, Facts: &f}
}

func TestOnlyADifferenceInMeaningIsOne(t *testing.T) {
	first := opinion(func(*api.Facts) {})
	for name, c := range map[string]struct {
		change func(*api.Facts)
		asked  string // the fact whose texts the second author compares
		differ string
	}{
		"order": {func(f *api.Facts) {
			slices.Reverse(f.CountryEligibility)
			slices.Reverse(f.Languages)
			slices.Reverse(f.Requirements)
		}, "", ""},
		"order of regions": {func(f *api.Facts) { slices.Reverse(f.CountryEligibility[0].IncludedRegions) }, "", ""},
		"sources": {func(f *api.Facts) {
			f.Pay.SourceURL, f.CountryEligibility[1].SourceURLs, f.RiskIndicators[0].SourceURL = "https://b.example",
				nil, "https://b.example"
		}, "", ""},
		"case and spaces": {func(f *api.Facts) { f.Requirements[0] = "18 Years  or older " }, "", ""},
		"unknown country": {func(f *api.Facts) {
			f.CountryEligibility = append(f.CountryEligibility,
				api.CountryEligibility{Country: "FR", Status: api.EligibilityUnknown})
		}, "", ""},
		"requirements":       {func(f *api.Facts) { f.Requirements[0] = "At least 18 years old" }, "requirements", ""},
		"fewer requirements": {func(f *api.Facts) { f.Requirements = f.Requirements[:1] }, "requirements", ""},
		"languages":          {func(f *api.Facts) { f.Languages = []string{"Anglais", "Français"} }, "languages", ""},
		"note":               {func(f *api.Facts) { f.CountryEligibility[0].Note = "" }, "countryEligibility", ""},
		"risk":               {func(f *api.Facts) { f.RiskIndicators[0].Code = "fee" }, "riskIndicators", ""},
		"URL": {func(f *api.Facts) { f.ApplicationURL = new("https://a.example/apply/") },
			"applicationUrl", ""},
		"no requirements": {func(f *api.Facts) { f.Requirements = []string{} }, "", "requirements"},
		"no URL":          {func(f *api.Facts) { f.ApplicationURL = nil }, "", "applicationUrl"},
		"region": {func(f *api.Facts) { f.CountryEligibility[0].IncludedRegions = []string{"CA-ON"} }, "",
			"countryEligibility"},
		"eligibility": {func(f *api.Facts) {
			f.CountryEligibility[1].Status, f.CountryEligibility[1].Note = api.Eligible, "All states"
		}, "", "countryEligibility"},
		"pay":    {func(f *api.Facts) { f.Pay.Maximum = 21 }, "", "pay"},
		"no pay": {func(f *api.Facts) { f.Pay = nil }, "", "pay"},
		"status": {func(f *api.Facts) { f.ApplicationStatus = api.ApplicationOpen }, "", "applicationStatus"},
	} {
		t.Run(name, func(t *testing.T) {
			names := func(name string) []string {
				return slices.DeleteFunc([]string{name}, func(n string) bool { return n == "" })
			}
			second := opinion(c.change)
			before, err := json.Marshal(second)
			require.NoError(t, err)
			differs, texts := event.Differences(first, second, api.FactNames, nil)
			require.Equal(t, names(c.differ), differs)
			asked := []string{}
			for _, text := range texts {
				asked = append(asked, text.Fact)
				require.NotEqual(t, text.First, text.Second)
			}
			require.Equal(t, names(c.asked), asked)
			for same, want := range map[bool][]string{true: names(c.differ), false: names(c.differ + c.asked)} {
				differs, texts = event.Differences(first, second, api.FactNames, map[string]bool{c.asked: same})
				require.Equal(t, want, differs)
				require.Empty(t, texts)
			}
			after, err := json.Marshal(second)
			require.NoError(t, err)
			require.JSONEq(t, string(before), string(after), "the review stays as it is")
		})
	}
}

func TestOpinionIsAboutTwoKnownFactsAndAnother(t *testing.T) {
	chosen := map[string]bool{}
	for i := range 50 {
		first := opinion(func(f *api.Facts) { f.Remote = new(true) })
		first.ID, first.Slug, first.CheckType = fmt.Sprint(i), "maple", api.FactualReview
		r, err := event.New(first)
		require.NoError(t, err)
		r.ID = first.ID
		names, err := event.OpinionFacts(r)
		require.NoError(t, err)
		require.Len(t, names, 3)
		known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !first.Facts.Knows(name) })
		require.GreaterOrEqual(t, len(known), 2)
		again, err := event.OpinionFacts(r)
		require.NoError(t, err)
		require.Equal(t, names, again, "the same review asks about the same facts")
		for _, name := range names {
			chosen[name] = true
		}
	}
	require.Len(t, chosen, len(api.FactNames), "every fact is chosen sometimes, also unknown ones")
}
