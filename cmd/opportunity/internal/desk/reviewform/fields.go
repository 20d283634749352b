package reviewform

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"opportunity.internal/pkg/api"
)

// Fields of the facts that are not a choice. fill writes the recorded values into them, entered
// reads them.

// fill sets the fields of a fact to its recorded value.
func (f Form) fill(name string) {
	v := f.Values
	switch name {
	case "countryEligibility":
		f.clear("country")
		v.Set(field("country", 0, "code"), "CA")
		for i, c := range f.Base.CountryEligibility {
			v.Set(field("country", i, "code"), c.Country)
			v.Set(field("country", i, "status"), string(c.Status))
			v.Set(field("country", i, "all"), formatBool(c.AllRegions))
			v.Set(field("country", i, "in"), strings.Join(c.IncludedRegions, " "))
			v.Set(field("country", i, "notin"), strings.Join(c.ExcludedRegions, " "))
			v[field("country", i, "sources")] = f.numbers(c.SourceURLs...)
			v.Set(field("country", i, "note"), c.Note)
		}
	case "pay":
		f.clear("pay")
		v.Set("pay.currency", "CAD")
		if y := f.Base.Pay; y != nil {
			v.Set("pay.minimum", api.FormatAmount(y.Minimum))
			v.Set("pay.maximum", api.FormatAmount(y.Maximum))
			v.Set("pay.currency", y.Currency)
			v.Set("pay.unit", string(y.Unit))
			v["pay.sources"] = f.numbers(y.SourceURL)
		}
	case "languages":
		v.Set(name, strings.Join(f.Base.Languages, "\n"))
	case "requirements":
		v.Set(name, strings.Join(f.Base.Requirements, "\n"))
	case "applicationUrl":
		v.Del(name)
		if u := f.Base.ApplicationURL; u != nil {
			v.Set(name, *u)
		}
	case "riskIndicators":
		f.clear("risk")
		for i, r := range f.Base.RiskIndicators {
			v.Set(field("risk", i, "code"), r.Code)
			v.Set(field("risk", i, "note"), r.Note)
			v[field("risk", i, "sources")] = f.numbers(r.SourceURL)
		}
	}
}

func (f Form) clear(name string) {
	maps.DeleteFunc(f.Values, func(field string, _ []string) bool { return strings.HasPrefix(field, name+".") })
}

// maxEntries bounds the countries and the risk indicators of a form.
const maxEntries = 300

// Countries returns the number of entries for countries, with blank ones at the end.
func (f Form) Countries() int { return f.entries("country") }

// Risks returns the number of entries for risk indicators, with blank ones at the end.
func (f Form) Risks() int { return f.entries("risk") }

// Further returns the index of the first of n entries that is there for a further country or risk
// indicator only.
func (f Form) Further(n int) int { return max(1, n-blanks) }

func (f Form) entries(name string) int {
	for i := maxEntries - 1; i >= 0; i-- {
		if f.Values.Get(field(name, i, "code")) != "" || f.Values.Get(field(name, i, "note")) != "" {
			return min(i+1+blanks, maxEntries)
		}
	}
	return blanks
}

// entered reads the fields of a fact as JSON. It returns what is wrong with them.
func (f Form) entered(name string) (value json.RawMessage, wrong string) {
	var content any
	switch name {
	case "countryEligibility":
		content, wrong = f.countries()
	case "pay":
		content, wrong = f.pay()
	case "languages", "requirements":
		content = lines(f.Values.Get(name))
	case "applicationUrl":
		if u := strings.TrimSpace(f.Values.Get(name)); u != "" {
			content = u
		}
	case "riskIndicators":
		content, wrong = f.risks()
	default:
		return unknown[name], "choose one of the values"
	}
	value, err := json.Marshal(content)
	if err != nil {
		return unknown[name], err.Error()
	}
	if wrong == "" && string(value) == string(unknown[name]) {
		wrong = "enter a value, or choose that you cannot tell"
	}
	return value, wrong
}

// numbers returns the numbers of sources on the form, as the fields have them.
func (f Form) numbers(urls ...string) (numbers []string) {
	for _, u := range urls {
		if i := slices.Index(f.Sources, u); i >= 0 {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	return numbers
}

// cited returns the sources that are chosen in a field. If there are none, it returns those of the
// quotes that the curator adds to the fact.
func (f Form) cited(field, fact string) (urls []string) {
	for _, n := range f.Values[field] {
		if u := f.source(n); u != "" && !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	if len(urls) > 0 {
		return urls
	}
	for _, q := range f.added(fact) {
		if !slices.Contains(urls, q.SourceURL) {
			urls = append(urls, q.SourceURL)
		}
	}
	return urls
}

// citedOne is like cited, for a fact that cites one source.
func (f Form) citedOne(field, fact string) (u, wrong string) {
	if urls := f.cited(field, fact); len(urls) > 0 {
		return urls[0], ""
	}
	return "", "choose the source"
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
		c.SourceURLs = f.cited(field("country", i, "sources"), "countryEligibility")
		c.IncludedRegions, c.ExcludedRegions = regions(c.Country, value("in")), regions(c.Country, value("notin"))
		all = append(all, c)
	}
	return all, ""
}

// regions splits a list of regions. Those of Canada can be names; other codes get the country if
// they lack it.
func regions(country, text string) (codes []string) {
	all := words(text)
	for i := 0; i < len(all); i++ {
		code, n := all[i], 1
		for last := min(i+maxProvinceWords, len(all)); country == "CA" && last > i; last-- {
			if province, ok := provinces[plainName(strings.Join(all[i:last], " "))]; ok {
				code, n = province, last-i
				break
			}
		}
		if i += n - 1; country != "CA" && !strings.Contains(code, "-") {
			code = country + "-" + code
		}
		if code != "" {
			codes = append(codes, code)
		}
	}
	return codes
}

// maxProvinceWords is the number of words of the longest name in provinces.
const maxProvinceWords = 4

// provinces are the codes of Canada's provinces and territories by plainName, and the words between
// them.
var provinces = map[string]string{
	"alberta": "AB", "alta": "AB", "british columbia": "BC", "colombie britannique": "BC", "bc": "BC", "manitoba": "MB", "man": "MB",
	"new brunswick": "NB", "nouveau brunswick": "NB", "newfoundland": "NL", "labrador": "NL", "newfoundland and labrador": "NL",
	"terre neuve": "NL", "terre neuve et labrador": "NL", "nova scotia": "NS", "nouvelle ecosse": "NS",
	"northwest territories": "NT", "territoires du nord ouest": "NT", "nwt": "NT", "nunavut": "NU", "ontario": "ON", "ont": "ON",
	"prince edward island": "PE", "ile du prince edouard": "PE", "pei": "PE", "quebec": "QC", "que": "QC", "pq": "QC",
	"saskatchewan": "SK", "sask": "SK", "yukon": "YT", "yukon territory": "YT", "and": "", "et": "", "&": "",
}

// plainName returns a name in lower case, without accents and dots, and with spaces for hyphens.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '.' || unicode.Is(unicode.Mn, r):
			return -1
		case unicode.Is(unicode.Pd, r):
			return ' '
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(name))
}

func (f Form) pay() (any, string) {
	minimum, wrong := f.amount("pay.minimum", "from")
	maximum, wrongToo := f.amount("pay.maximum", "to")
	source, missing := f.citedOne("pay.sources", "pay")
	return api.Pay{
		Minimum: minimum, Maximum: maximum, Currency: strings.ToUpper(strings.TrimSpace(f.Values.Get("pay.currency"))),
		Unit: api.PayUnit(f.Values.Get("pay.unit")), SourceURL: source,
	}, strings.Join(slices.DeleteFunc([]string{wrong, wrongToo, missing}, func(s string) bool { return s == "" }), "; ")
}

func (f Form) amount(field, label string) (amount float64, wrong string) {
	number, err := api.ParseNumber(f.Values.Get(field))
	if err != nil {
		return 0, label + ": " + err.Error()
	}
	amount, _ = number.Float64() // it has few digits
	return amount, ""
}

func (f Form) risks() (any, string) {
	all := []api.RiskIndicator{}
	for i := range f.Risks() {
		value := func(name string) string { return strings.TrimSpace(f.Values.Get(field("risk", i, name))) }
		if value("code") == "" && value("note") == "" {
			continue
		}
		source, wrong := f.citedOne(field("risk", i, "sources"), "riskIndicators")
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
