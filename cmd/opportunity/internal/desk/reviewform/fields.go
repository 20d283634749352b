package reviewform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Fields of the facts that are not a choice. fill writes the recorded values into them, entered reads them.

// fill sets the fields to the recorded facts.
func (f Form) fill() {
	v := f.Values
	for i, c := range f.Base.CountryEligibility {
		v.Set(field("country", i, "code"), c.Country)
		v.Set(field("country", i, "status"), string(c.Status))
		v.Set(field("country", i, "all"), formatBool(c.AllRegions))
		v.Set(field("country", i, "in"), strings.Join(c.IncludedRegions, " "))
		v.Set(field("country", i, "notin"), strings.Join(c.ExcludedRegions, " "))
		v.Set(field("country", i, "sources"), f.numbers(c.SourceURLs...))
		v.Set(field("country", i, "note"), c.Note)
	}
	if y := f.Base.Pay; y != nil {
		v.Set("pay.minimum", fmt.Sprint(y.Minimum))
		v.Set("pay.maximum", fmt.Sprint(y.Maximum))
		v.Set("pay.currency", y.Currency)
		v.Set("pay.unit", string(y.Unit))
		v.Set("pay.sources", f.numbers(y.SourceURL))
	}
	v.Set("languages", strings.Join(f.Base.Languages, "\n"))
	v.Set("requirements", strings.Join(f.Base.Requirements, "\n"))
	if u := f.Base.ApplicationURL; u != nil {
		v.Set("applicationUrl", *u)
	}
	for i, r := range f.Base.RiskIndicators {
		v.Set(field("risk", i, "code"), r.Code)
		v.Set(field("risk", i, "note"), r.Note)
		v.Set(field("risk", i, "sources"), f.numbers(r.SourceURL))
	}
}

// maxEntries bounds the countries and the risk indicators of a form.
const maxEntries = 300

// Countries returns the number of entries for countries, with blank ones at the end.
func (f Form) Countries() int { return f.entries("country") }

// Risks returns the number of entries for risk indicators, with blank ones at the end.
func (f Form) Risks() int { return f.entries("risk") }

func (f Form) entries(name string) int {
	for i := maxEntries - 1; i >= 0; i-- {
		if f.Values.Get(field(name, i, "code")) != "" || f.Values.Get(field(name, i, "note")) != "" {
			return min(i+1+blanks, maxEntries)
		}
	}
	return blanks
}

// entered returns a function that reads the fields of a fact as JSON. It returns what is wrong with them.
func (f Form) entered() func(name string) (value json.RawMessage, wrong string) {
	read := map[string]func() (any, string){
		"countryEligibility": f.countries,
		"pay":                f.pay,
		"languages":          func() (any, string) { return lines(f.Values.Get("languages")), "" },
		"requirements":       func() (any, string) { return lines(f.Values.Get("requirements")), "" },
		"applicationUrl":     f.applicationURL,
		"riskIndicators":     f.risks,
	}
	return func(name string) (json.RawMessage, string) {
		fields, found := read[name]
		if !found {
			return unknown[name], "choose one of the values"
		}
		content, wrong := fields()
		value, err := json.Marshal(content)
		if err != nil {
			return unknown[name], err.Error()
		}
		if wrong == "" && string(value) == string(unknown[name]) {
			wrong = "enter a value, or choose that you cannot tell"
		}
		return value, wrong
	}
}

// numbers returns the numbers of sources on the form, as the fields have them.
func (f Form) numbers(urls ...string) string {
	var text []string
	for _, u := range urls {
		if i := slices.Index(f.Sources, u); i >= 0 {
			text = append(text, strconv.Itoa(i+1))
		}
	}
	return strings.Join(text, " ")
}

// cited returns the sources with the numbers in text, or what is wrong with the numbers.
func (f Form) cited(text string) (urls []string, wrong string) {
	for _, word := range words(text) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > len(f.Sources) {
			return nil, fmt.Sprintf("there is no source %s; enter numbers from 1 to %d", word, len(f.Sources))
		}
		urls = append(urls, f.Sources[n-1])
	}
	return urls, ""
}

// citedOne is like cited, for a fact that cites one source.
func (f Form) citedOne(text string) (u, wrong string) {
	urls, wrong := f.cited(text)
	if wrong == "" && len(urls) != 1 {
		return "", "enter the number of one source"
	}
	return strings.Join(urls, ""), wrong
}

func (f Form) countries() (any, string) {
	all := []api.CountryEligibility{}
	for i := range f.Countries() {
		value := func(name string) string { return strings.TrimSpace(f.Values.Get(field("country", i, name))) }
		if value("code") == "" {
			continue
		}
		c := api.CountryEligibility{
			Country: strings.ToUpper(value("code")), Status: api.Eligibility(value("status")), AllRegions: parseBool(value("all")), Note: value("note"),
		}
		var wrong string
		if c.SourceURLs, wrong = f.cited(value("sources")); wrong != "" {
			return nil, c.Country + ": " + wrong
		}
		c.IncludedRegions, c.ExcludedRegions = regions(c.Country, value("in")), regions(c.Country, value("notin"))
		all = append(all, c)
	}
	return all, ""
}

// regions splits a list of regions and adds the country to codes that lack it.
func regions(country, text string) []string {
	codes := words(strings.ToUpper(text))
	for i, code := range codes {
		if !strings.Contains(code, "-") {
			codes[i] = country + "-" + code
		}
	}
	return codes
}

func (f Form) pay() (any, string) {
	minimum, ok := number(f.Values.Get("pay.minimum"))
	maximum, too := number(f.Values.Get("pay.maximum"))
	if !ok || !too {
		return nil, "enter both amounts as numbers, such as 17.50"
	}
	source, wrong := f.citedOne(f.Values.Get("pay.sources"))
	return api.Pay{
		Minimum: minimum, Maximum: maximum, Currency: strings.ToUpper(strings.TrimSpace(f.Values.Get("pay.currency"))),
		Unit: api.PayUnit(f.Values.Get("pay.unit")), SourceURL: source,
	}, wrong
}

func (f Form) applicationURL() (any, string) {
	if u := strings.TrimSpace(f.Values.Get("applicationUrl")); u != "" {
		return u, ""
	}
	return nil, ""
}

func (f Form) risks() (any, string) {
	all := []api.RiskIndicator{}
	for i := range f.Risks() {
		value := func(name string) string { return strings.TrimSpace(f.Values.Get(field("risk", i, name))) }
		if value("code") == "" && value("note") == "" {
			continue
		}
		source, wrong := f.citedOne(value("sources"))
		if wrong != "" {
			return nil, value("code") + ": " + wrong
		}
		all = append(all, api.RiskIndicator{Code: value("code"), Note: value("note"), SourceURL: source})
	}
	return all, ""
}

func formatBool(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

func parseBool(text string) *bool {
	if b, err := strconv.ParseBool(text); err == nil {
		return &b
	}
	return nil
}
