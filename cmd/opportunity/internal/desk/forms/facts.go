package forms

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"opportunity.internal/pkg/api"
)

// Describe returns the value of a fact as lines of text for people, none if it is unknown.
func Describe(f api.Facts, name string) (lines []string) {
	f.Complete()
	switch name {
	case "countryEligibility":
		for _, c := range f.CountryEligibility {
			lines = append(lines, describeCountry(c))
		}
	case "pay":
		if y := f.Pay; y != nil {
			amount := plain(y.Minimum)
			if y.Maximum != y.Minimum {
				amount += " to " + plain(y.Maximum)
			}
			lines = []string{fmt.Sprintf("%s %s per %s", amount, y.Currency, strings.ReplaceAll(string(y.Unit), "-", " "))}
		}
	case "languages":
		lines = f.Languages
	case "requirements":
		lines = f.Requirements
	case "riskIndicators":
		for _, r := range f.RiskIndicators {
			lines = append(lines, strings.TrimSuffix(r.Code+": "+r.Note, ": "))
		}
	case "applicationUrl":
		if f.ApplicationURL != nil {
			lines = []string{*f.ApplicationURL}
		}
	default:
		value := string(Values(f)[name])
		for _, o := range find(Facts, name).Options {
			if o.Value == value {
				return []string{o.Label}
			}
		}
	}
	return lines
}

func plain(amount float64) string { return strconv.FormatFloat(amount, 'f', -1, 64) }

func describeCountry(c api.CountryEligibility) string {
	text := c.Country + ": " + string(c.Status)
	if c.AllRegions != nil && *c.AllRegions {
		text += ", all regions"
	}
	if len(c.IncludedRegions) > 0 {
		text += ", only in " + regionNames(c.IncludedRegions)
	}
	if len(c.ExcludedRegions) > 0 {
		text += ", not in " + regionNames(c.ExcludedRegions)
	}
	if c.Note != "" {
		text += " (" + c.Note + ")"
	}
	return text
}

// Changes describes each fact that differs, as it was before and after.
func Changes(before, after api.Facts) (all []string) {
	for _, name := range Differences(before, after) {
		all = append(all, Review{Base: before}.change(after, name))
	}
	return all
}

// canada is the country whose regions have names.
const canada = "CA"

// provinces are Canada's provinces and territories.
var provinces = []Option{
	{"CA-AB", "Alberta", ""}, {"CA-BC", "British Columbia", ""}, {"CA-MB", "Manitoba", ""},
	{"CA-NB", "New Brunswick", ""}, {"CA-NL", "Newfoundland and Labrador", ""}, {"CA-NS", "Nova Scotia", ""},
	{"CA-NT", "Northwest Territories", ""}, {"CA-NU", "Nunavut", ""}, {"CA-ON", "Ontario", ""},
	{"CA-PE", "Prince Edward Island", ""}, {"CA-QC", "Québec", ""},
	{"CA-SK", "Saskatchewan", ""}, {"CA-YT", "Yukon", ""},
}

// regionNames names the regions of Canada. Other regions keep their codes.
func regionNames(codes []string) string {
	names := slices.Clone(codes)
	for i, code := range names {
		if at := slices.IndexFunc(provinces, func(o Option) bool { return o.Value == code }); at >= 0 {
			names[i] = provinces[at].Label
		}
	}
	return strings.Join(names, ", ")
}

// regions splits lists of regions. Those of Canada can be names; other codes get the country if
// they lack it.
func regions(country string, lists []string) (codes []string) {
	codes = []string{}
	for _, part := range strings.FieldsFunc(strings.Join(lists, "\n"),
		func(r rune) bool { return strings.ContainsRune(",;/\r\n", r) }) {
		parts := strings.Fields(part)
		if country == canada && provinceNamed(part) != "" {
			parts = []string{part}
		}
		for _, code := range parts {
			if country == canada {
				code = cmp.Or(provinceNamed(code), code)
			} else if !strings.Contains(code, "-") {
				code = country + "-" + code
			}
			codes = append(codes, code)
		}
	}
	return codes
}

// provinceNamed returns the code of a province or territory, empty if none has the name.
func provinceNamed(name string) (code string) {
	for _, o := range provinces {
		if plainName(o.Label) == plainName(name) {
			code = o.Value
		}
	}
	return code
}

// plainName returns a name in lower case, without accents, and with single spaces for hyphens.
func plainName(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(norm.NFD.String(name)), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Pd, r) || unicode.Is(unicode.Mn, r)
	}), " ")
}
