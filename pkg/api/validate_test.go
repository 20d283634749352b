package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestValidSlug(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "10xmanagement": true, "99-freelas": true, strings.Repeat("a", 80): true,
		"": false, "A": false, "-a": false, "a-": false, "a--b": false, "a_b": false, "ø": false, "a\n": false, "a/b": false,
		strings.Repeat("a", 81): false,
	} {
		require.Equal(t, want, api.ValidSlug(s), "%q", s)
	}
}

func TestProvinceCode(t *testing.T) {
	for s, want := range map[string]string{"ON": "CA-ON", "on": "CA-ON", "ca-qc": "CA-QC", "CA-YT": "CA-YT"} {
		code, ok := api.ProvinceCode(s)
		require.True(t, ok, s)
		require.Equal(t, want, code)
	}
	for _, s := range []string{"", "CA", "CA-", "US-NY", "XX", "CA-CA-ON", " ON", "ſk"} {
		_, ok := api.ProvinceCode(s)
		require.False(t, ok, s)
	}
}

func TestNormalizeConvertsFactsToStoredForm(t *testing.T) {
	facts := api.Facts{CountryEligibility: []api.CountryEligibility{
		{Country: "CA", Status: api.Eligible, IncludedRegions: []string{"AB", "CA-ON", "on"}, ExcludedRegions: []string{"qc"},
			SourceURLs: []string{"https://example.com/who"}},
		{Country: "US", Status: api.Ineligible, ExcludedRegions: []string{"us-ny"}},
	}}
	var p api.Problems
	facts.Normalize("facts", &p)
	require.Empty(t, p)
	require.Equal(t, []string{"CA-AB", "CA-ON"}, facts.CountryEligibility[0].IncludedRegions)
	require.Equal(t, []string{"CA-QC"}, facts.CountryEligibility[0].ExcludedRegions)
	require.Equal(t, []string{"US-NY"}, facts.CountryEligibility[1].ExcludedRegions)
	require.Equal(t, []string{}, facts.CountryEligibility[1].SourceURLs)
	require.Equal(t, []string{}, facts.Languages)
	require.Equal(t, api.ApplicationUnknown, facts.ApplicationStatus)

	again := facts
	again.Normalize("facts", &p)
	require.Equal(t, facts, again, "normalized facts do not change")
}

func TestNormalizeReportsEveryProblem(t *testing.T) {
	address := "https://example.com"
	bad := "mailto:a@example.com"
	pay := api.Pay{Minimum: 10, Maximum: 20, Currency: "CAD", Unit: api.PerHour, SourceURL: address}
	for _, c := range []struct {
		name  string
		facts api.Facts
		want  []string // starts of the problems
	}{
		{"country", api.Facts{CountryEligibility: []api.CountryEligibility{{Country: "ca", Status: "maybe", Note: strings.Repeat("x", 2001)}}},
			[]string{"facts.countryEligibility[0].country: ", "facts.countryEligibility[0].status: must be one of eligible, ineligible, unknown",
				"facts.countryEligibility[0].note: "}},
		{"country twice", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.EligibilityUnknown}, {Country: "CA", Status: api.Ineligible}}},
			[]string{"facts.countryEligibility[1].country: CA appears twice"}},
		{"regions", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.Eligible, IncludedRegions: []string{"ON", "US-NY"}, SourceURLs: []string{address}},
			{Country: "US", Status: api.Eligible, ExcludedRegions: []string{"NY", "CA-ON"}, SourceURLs: []string{address, bad}}}},
			[]string{"facts.countryEligibility[0].includedRegions[1]: ", "facts.countryEligibility[1].excludedRegions[0]: ",
				"facts.countryEligibility[1].excludedRegions[1]: ", "facts.countryEligibility[1].sourceUrls[1]: "}},
		{"eligible without a source", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.Eligible}, {Country: "US", Status: api.EligibilityUnknown, AllRegions: new(true)},
			{Country: "FR", Status: api.Ineligible, AllRegions: new(false)}, {Country: "DE", Status: api.EligibilityUnknown}}},
			[]string{"facts.countryEligibility[0].sourceUrls: an eligible country, or allRegions true, needs at least one source URL",
				"facts.countryEligibility[1].sourceUrls: "}},
		{"pay", api.Facts{Pay: &api.Pay{Minimum: -1, Maximum: -2, Currency: "cad", Unit: "day", SourceURL: bad}},
			[]string{"facts.pay.minimum: ", "facts.pay.maximum: ", "facts.pay.currency: ", "facts.pay.unit: ", "facts.pay.sourceUrl: "}},
		{"pay that is right", api.Facts{Pay: &pay}, nil},
		{"the rest", api.Facts{Languages: []string{"en", " "}, ApplicationStatus: "shut", ApplicationURL: &bad,
			Requirements: []string{""}, RiskIndicators: []api.RiskIndicator{{SourceURL: bad}}},
			[]string{"facts.languages[1]: ", "facts.applicationStatus: ", "facts.applicationUrl: ", "facts.requirements[0]: ",
				"facts.riskIndicators[0].code: ", "facts.riskIndicators[0].sourceUrl: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p api.Problems
			c.facts.Normalize("facts", &p)
			require.Len(t, p, len(c.want), "%q", p)
			for i, start := range c.want {
				require.Truef(t, strings.HasPrefix(p[i], start), "%q does not start with %q", p[i], start)
			}
		})
	}
}
