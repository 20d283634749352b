package api_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

func TestValidSlug(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "10xmanagement": true, "99-freelas": true, strings.Repeat("a", 80): true,
		"": false, "A": false, "-a": false, "a-": false, "a--b": false, "a_b": false, "ø": false, "a\n": false,
		"a/b":                   false,
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
		{Country: "CA", Status: api.Eligible, IncludedRegions: []string{"AB", "CA-ON", "on"},
			ExcludedRegions: []string{"qc"},
			SourceURLs:      []string{"https://example.com/who"}},
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

	zero := api.Facts{Pay: &api.Pay{Minimum: math.Copysign(0, -1), Maximum: 5, Currency: "CAD", Unit: api.PerTask,
		SourceURL: "https://example.com"}}
	zero.Normalize("facts", &p)
	require.Empty(t, p)
	require.False(t, math.Signbit(zero.Pay.Minimum), "a negative zero is stored")

	again := facts
	again.Normalize("facts", &p)
	require.Equal(t, facts, again, "normalized facts do not change")
}

// requireStarts fails the test unless each problem begins as the one of the same place in starts.
func requireStarts(t *testing.T, starts []string, problems api.Problems) {
	t.Helper()
	require.Len(t, problems, len(starts), "%q", problems)
	for i, start := range starts {
		require.Truef(t, strings.HasPrefix(problems[i].String(), start), "%q does not start with %q", problems[i], start)
	}
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
		{"country", api.Facts{CountryEligibility: []api.CountryEligibility{{Country: "ca", Status: "maybe",
			Note: strings.Repeat("x", 2001)}}},
			[]string{"facts.countryEligibility[0].country: ",
				"facts.countryEligibility[0].status: must be one of eligible, ineligible, unknown; \"maybe\" is none",
				"facts.countryEligibility[0].note: "}},
		{"country twice", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.EligibilityUnknown}, {Country: "CA", Status: api.Ineligible}}},
			[]string{"facts.countryEligibility[1].country: CA appears twice"}},
		{"regions", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.Eligible, IncludedRegions: []string{"ON", "US-NY"},
				SourceURLs: []string{address}},
			{Country: "US", Status: api.Eligible, ExcludedRegions: []string{"NY", "CA-ON"},
				SourceURLs: []string{address, bad}}}},
			[]string{"facts.countryEligibility[0].includedRegions[1]: ",
				"facts.countryEligibility[1].excludedRegions[0]: ",
				"facts.countryEligibility[1].excludedRegions[1]: ", "facts.countryEligibility[1].sourceUrls[1]: "}},
		{"regions that contradict each other", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.Eligible, AllRegions: new(true), IncludedRegions: []string{"on"},
				SourceURLs: []string{address}},
			{Country: "US", Status: api.Ineligible, AllRegions: new(false), IncludedRegions: []string{"US-NY"},
				ExcludedRegions: []string{"US-CA", "us-ny"}},
			{Country: "FR", Status: api.Eligible, AllRegions: new(true), ExcludedRegions: []string{"FR-GP"},
				SourceURLs: []string{address}}}},
			[]string{"facts.countryEligibility[0].includedRegions: must be empty if allRegions is true: CA-ON is only a " +
				"part; set allRegions to false, or remove it",
				"facts.countryEligibility[1].excludedRegions[1]: US-NY is also in includedRegions; remove it from one of them"}},
		{"everywhere excluded", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.Eligible, AllRegions: new(true), ExcludedRegions: api.Provinces,
				SourceURLs: []string{address}}}},
			[]string{"facts.countryEligibility[0].excludedRegions: must not name every province and territory of an " +
				"eligible country: set status to ineligible, or remove one"}},
		{"several languages in one", api.Facts{Languages: []string{"English, French", "English/French",
			"Haitian Creole"}},
			[]string{`facts.languages[0]: "English, French" must be one language: write several as separate values`,
				`facts.languages[1]: "English/French" must`}},
		{"texts in two normal forms", api.Facts{Languages: []string{"Français", "Franc\u0327ais"},
			Requirements: []string{" A phone", "A phone "}},
			[]string{`facts.languages[1]: "Français" repeats facts.languages[0]`,
				`facts.requirements[1]: "A phone" repeats facts.requirements[0]`}},
		{"repetitions", api.Facts{Languages: []string{"English", "english"},
			Requirements: []string{"A phone", "A car", "A phone"}, CountryEligibility: []api.CountryEligibility{
				{Country: "CA", Status: api.Eligible,
					SourceURLs: []string{"https://a.example", "https://A.example:443/",
						"https://a.example/x", "https://a.example/X"}}}},
			[]string{`facts.countryEligibility[0].sourceUrls[1]: "https://A.example:443/" repeats ` +
				`facts.countryEligibility[0].sourceUrls[0]; remove one of them`,
				`facts.languages[1]: "english" repeats facts.languages[0]`,
				`facts.requirements[2]: "A phone" repeats facts.requirements[0]`}},
		{"eligible without a source", api.Facts{CountryEligibility: []api.CountryEligibility{
			{Country: "CA", Status: api.Eligible}, {Country: "US", Status: api.EligibilityUnknown,
				AllRegions: new(true)},
			{Country: "FR", Status: api.Ineligible, AllRegions: new(false)},
			{Country: "DE", Status: api.EligibilityUnknown}}},
			[]string{"facts.countryEligibility[0].sourceUrls: an eligible country, or allRegions true, needs at least one " +
				"source URL",
				"facts.countryEligibility[1].sourceUrls: "}},
		{"pay", api.Facts{Pay: &api.Pay{Minimum: -1, Maximum: -2, Currency: "cad", Unit: "day", SourceURL: bad}},
			[]string{"facts.pay.minimum: -1 must not be negative",
				"facts.pay.maximum: -2 must not be below the minimum, -1", "facts.pay.currency: ", "facts.pay.unit: ",
				"facts.pay.sourceUrl: "}},
		{"pay that is right", api.Facts{Pay: &pay}, nil},
		{"the rest", api.Facts{Languages: []string{"en", " "}, ApplicationStatus: "shut", ApplicationURL: &bad,
			Requirements: []string{""}, RiskIndicators: []api.RiskIndicator{{SourceURL: bad}}},
			[]string{"facts.languages[1]: ", "facts.applicationStatus: ", "facts.applicationUrl: ",
				"facts.requirements[0]: ",
				"facts.riskIndicators[0].code: ", "facts.riskIndicators[0].sourceUrl: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p api.Problems
			c.facts.Normalize("facts", &p)
			requireStarts(t, c.want, p)
		})
	}
}

func TestCodesNameTheOneThatIsMeant(t *testing.T) {
	for expected, c := range map[string]struct {
		check func(p *api.Problems, field, value string)
		codes map[string]string // by code, the end of the problem; "" if the code exists
	}{
		"a country code of ISO 3166-1, two upper-case letters such as CA": {(*api.Problems).Country, map[string]string{
			"CA": "", "GB": "", "XK": "", "SS": "", "TW": "", "PS": "",
			"UK": `"UK" is none: write GB`, "EN": `"EN" is none: write GB, US or another`, "gb": `"gb" is none: write GB`,
			"QQ": `"QQ" is none`, "USA": `"USA" is none: write US`,
			"": `"" is none`, "Canada": `"Canada" is none`, "EU": `"EU" is none: write an entry for each country`,
			"XX": `"XX" is none`, "CDN": `"CDN" is none`,
		}},
		"a currency code of ISO 4217, three upper-case letters such as CAD": {(*api.Problems).Currency, map[string]string{
			"CAD": "", "VES": "", "SLE": "", "XCG": "", "ZWG": "", "XOF": "", "CLF": "", "HRK": "",
			"CDN": `"CDN" is none: write CAD`, "RMB": `"RMB" is none: write CNY`, "cad": `"cad" is none: write CAD`,
			"ABC": `"ABC" is none`, "UK": `"UK" is none`, "$": `"$" is none: write USD, CAD or another`,
			"XXX": `"XXX" is none`, "DEM": `"DEM" is none: write EUR`,
		}},
	} {
		for code, end := range c.codes {
			var p, want api.Problems
			c.check(&p, "c", code)
			if end != "" {
				want = apitest.Problems("c: must be " + expected + "; " + end)
			}
			require.Equal(t, want, p, code)
		}
	}
}

func TestTextsAreNeitherHTMLNorDamaged(t *testing.T) {
	problems := func(text string) (p api.Problems) {
		p.AtMost("t", &text, 200)
		return p
	}
	for _, text := range []string{
		"", "R&D and Q&A; more", "AT&T;", "1 < 2 > 0", "List<String>", "ann <ann@example.com>", "<name>", "x<b and c>d",
		"5 <6", "C++ & C#", "<3", "a & b;",
		"Montréal", "São Tomé", "CAFÉ\u00a0» et QUALITÉ\u00a0: « MANHÃ » “LIBERTÉ” À… Ç’ IRMÃ”", "Ελλάδα",
		"Привет, Ñandú Ðà", "日本", "€ 5 – “ok”…", "😀 🇨🇦", "Â", "Ã", "ÂME", "NÃO", "ð", "√2",
	} {
		require.Empty(t, problems(text), text)
	}
	for _, text := range []string{
		"a<br>b", "<p>text", "text</P>", `<a href="https://x.example">x</a>`, "<br/>", "<BR />", "<!-- x -->",
		"<!DOCTYPE html>", "a &amp; b", "&nbsp;", "&#39;", "&#x27;", "&eacute;", "<h2>x", "&lt;b&gt;",
		`<img src="x">`, `<script src='x'>`, "<script>",
	} {
		p := problems(text)
		require.Len(t, p, 1, text)
		require.Contains(t, p[0].String(), "t: must be plain text: write the characters themselves instead of the HTML ",
			text)
	}
	for _, text := range []string{
		"MontrÃ©al", "â€™s", "ï¿½", "Ñ€Ñƒ", "Ð´Ð°", "donâ€™t", "Ã\u00a0 la carte", "25 Â°C", "â‚¬ 5", "ï»¿id", "ðŸ˜€", "ÐŸÑ€Ð¸Ð²ÐµÑ‚",
		"Montr√©al", "don‚Äôt", "Ã‰cole", "SÃ£o", "naÃ¯ve", "Â©",
	} {
		p := problems(text)
		require.Len(t, p, 1, text)
		require.Contains(t, p[0].String(), "which stands for characters that were read in another encoding: save the "+
			"file as UTF-8, or copy the words again", text)
	}
}
