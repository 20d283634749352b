package reviewform

import (
	"encoding/json"
	"fmt"
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

// Input is a field of a fact.
type Input struct {
	Name, Label string
	Kind        string // text, lines, choice, sources or boxes
	Value       string
	Options     []Option // of a choice and boxes
	Max         int      // characters of a text; 0 if there is no limit
}

// columns are the fields of an entry of a fact, which has the prefix of an entry in its names.
var columns = map[string][]Input{
	"country": {
		{Name: "code", Label: "Country", Max: 2},
		{Name: "status", Label: "Residents are", Kind: "choice", Options: []Option{
			{string(api.Eligible), "eligible", ""}, {string(api.Ineligible), "not eligible", ""},
			{string(api.EligibilityUnknown), "unknown", ""},
		}},
		{Name: "all", Label: "All regions", Kind: "choice",
			Options: []Option{{"", "unknown", ""}, {"true", "yes", ""}, {"false", "no", ""}}},
		{Name: "in", Label: "Only in", Max: api.MaxText},
		{Name: "notin", Label: "Not in", Max: api.MaxText},
		{Name: "sources", Label: "Sources", Kind: "sources"},
		{Name: "note", Label: "Note", Max: api.MaxText},
	},
	"pay": {
		{Name: "minimum", Label: "From", Max: 20},
		{Name: "maximum", Label: "To", Max: 20},
		{Name: "currency", Label: "Currency", Max: 3},
		{Name: "unit", Label: "Per", Kind: "choice", Options: options(api.PayUnits)},
		{Name: "sources", Label: "Source", Kind: "sources"},
	},
	"risk": {
		{Name: "code", Label: "Code", Max: 100},
		{Name: "note", Label: "Note", Max: api.MaxText},
		{Name: "sources", Label: "Source", Kind: "sources"},
	},
}

func options[T ~string](values []T) (all []Option) {
	for _, v := range values {
		all = append(all, Option{Value: string(v), Label: string(v)})
	}
	return all
}

// Entry is a group of fields: a country, the pay or a risk indicator.
type Entry struct {
	Label   string
	Inputs  []Input
	Further bool // blank, for a further one
}

// Entries returns the fields of a fact that is not a choice, with blank entries at the end.
func (f Form) Entries(fact string) (all []Entry) {
	switch fact {
	case "countryEligibility":
		for i := range f.countEntries("country") {
			all = append(all, f.entry("country", fmt.Sprintf("Country %d", i+1), i))
		}
	case "pay":
		return []Entry{f.entry("pay", "New pay")}
	case "riskIndicators":
		for i := range f.countEntries("risk") {
			all = append(all, f.entry("risk", fmt.Sprintf("Risk indicator %d", i+1), i))
		}
	case "applicationUrl":
		return []Entry{{Label: "New URL", Inputs: []Input{
			{Name: fact, Label: "New application URL", Value: f.Values.Get(fact), Max: api.MaxURL}}}}
	default:
		label := "New " + strings.ToLower(Label(fact)) + ", one on each line"
		return []Entry{{Label: label, Inputs: []Input{{Name: fact, Label: label, Kind: "lines", Value: f.Values.Get(fact)}}}}
	}
	for i := range all {
		all[i].Further = i >= max(1, len(all)-blanks)
	}
	return all
}

// entry returns the fields of an entry. Canada has a box for each region. Its regions can be typed
// only if the record has regions of both kinds.
func (f Form) entry(name, label string, index ...any) Entry {
	e := Entry{Label: label}
	canada := name == "country" && f.Values.Get(field(name, append(index, "code")...)) == canada
	for _, in := range columns[name] {
		column := in.Name
		in.Name = field(name, append(slices.Clone(index), column)...)
		in.Value = f.Values.Get(in.Name)
		if canada && column == "in" {
			boxes := field(name, append(slices.Clone(index), "regions")...)
			e.Inputs = append(e.Inputs,
				Input{Name: boxes, Label: "Chosen regions", Kind: "choice", Value: f.Values.Get(boxes),
					Options: []Option{{"in", "are the only ones", ""}, {"notin", "are excluded", ""}}},
				Input{Name: field(name, append(slices.Clone(index), "region")...), Label: "Regions", Kind: "boxes",
					Options: provinces})
		}
		if canada && (column == "in" || column == "notin") && in.Value == "" {
			continue
		}
		e.Inputs = append(e.Inputs, in)
	}
	return e
}

// Chosen reports whether a value of a field is chosen.
func (f Form) Chosen(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Numbered returns the sources as options, whose values are their numbers.
func (f Form) Numbered() (all []Option) {
	for i, u := range f.Sources {
		n := strconv.Itoa(i + 1)
		all = append(all, Option{Value: n, Label: n + ": " + u})
	}
	return all
}

// fill sets the fields of a fact to its recorded value.
func (f Form) fill(name string) {
	v := f.Values
	switch name {
	case "countryEligibility":
		f.clear("country")
		v.Set(field("country", 0, "code"), canada)
		for i, c := range f.Base.CountryEligibility {
			set := func(name string, values ...string) { v[field("country", i, name)] = values }
			set("code", c.Country)
			set("status", string(c.Status))
			set("all", formatBool(c.AllRegions))
			set("in", strings.Join(c.IncludedRegions, " "))
			set("notin", strings.Join(c.ExcludedRegions, " "))
			set("sources", f.numbers(c.SourceURLs...)...)
			set("note", c.Note)
			if c.Country == canada { // in the boxes
				kind, regions := "in", c.IncludedRegions
				if len(regions) == 0 {
					kind, regions = "notin", c.ExcludedRegions
				}
				set("regions", kind)
				set("region", regions...)
				set(kind)
			}
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

func (f Form) countEntries(name string) int {
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
		content = f.countries()
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
	add := func(u string) {
		if u != "" && !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	for _, n := range f.Values[field] {
		add(f.source(n))
	}
	if len(urls) == 0 {
		for _, q := range f.added(fact) {
			add(q.SourceURL)
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

func (f Form) countries() any {
	all := []api.CountryEligibility{}
	for i := range f.countEntries("country") {
		value := func(name string) string { return strings.TrimSpace(f.Values.Get(field("country", i, name))) }
		if value("code") == "" {
			continue
		}
		c := api.CountryEligibility{
			Country: strings.ToUpper(value("code")), Status: api.Eligibility(value("status")),
			AllRegions: parseBool(value("all")), Note: value("note"),
		}
		c.SourceURLs = f.cited(field("country", i, "sources"), "countryEligibility")
		c.IncludedRegions, c.ExcludedRegions = regions(c.Country, value("in")), regions(c.Country, value("notin"))
		if boxes := f.Values[field("country", i, "region")]; value("regions") == "notin" {
			c.ExcludedRegions = append(c.ExcludedRegions, boxes...)
		} else {
			c.IncludedRegions = append(c.IncludedRegions, boxes...)
		}
		all = append(all, c)
	}
	return all
}

const canada = "CA"

// provinces are Canada's provinces and territories.
var provinces = []Option{
	{"CA-AB", "Alberta", ""}, {"CA-BC", "British Columbia", ""}, {"CA-MB", "Manitoba", ""},
	{"CA-NB", "New Brunswick", ""}, {"CA-NL", "Newfoundland and Labrador", ""}, {"CA-NS", "Nova Scotia", ""},
	{"CA-NT", "Northwest Territories", ""}, {"CA-NU", "Nunavut", ""}, {"CA-ON", "Ontario", ""},
	{"CA-PE", "Prince Edward Island", ""}, {"CA-QC", "Québec", ""},
	{"CA-SK", "Saskatchewan", ""}, {"CA-YT", "Yukon", ""},
}

// regions splits a list of regions. Those of Canada can be names; other codes get the country if
// they lack it.
func regions(country, text string) (codes []string) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",;/\r\n", r) }) {
		parts := strings.Fields(part)
		if i := provinceNamed(part); country == canada && i >= 0 {
			parts = []string{provinces[i].Value}
		}
		for _, code := range parts {
			i := provinceNamed(code)
			switch {
			case country == canada && i >= 0:
				code = provinces[i].Value
			case country != canada && !strings.Contains(code, "-"):
				code = country + "-" + code
			}
			codes = append(codes, code)
		}
	}
	return codes
}

func provinceNamed(name string) int {
	return slices.IndexFunc(provinces, func(o Option) bool { return plainName(o.Label) == plainName(name) })
}

// plainName returns a name in lower case, without accents, and with single spaces for hyphens.
func plainName(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(norm.NFD.String(name)), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Pd, r) || unicode.Is(unicode.Mn, r)
	}), " ")
}

func (f Form) pay() (any, string) {
	minimum, wrong := f.amount("pay.minimum", "from")
	maximum, wrongToo := f.amount("pay.maximum", "to")
	source, missing := f.citedOne("pay.sources", "pay")
	problems := slices.DeleteFunc([]string{wrong, wrongToo, missing}, func(s string) bool { return s == "" })
	return api.Pay{
		Minimum: minimum, Maximum: maximum, Currency: strings.ToUpper(strings.TrimSpace(f.Values.Get("pay.currency"))),
		Unit: api.PayUnit(f.Values.Get("pay.unit")), SourceURL: source,
	}, strings.Join(problems, "; ")
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
	for i := range f.countEntries("risk") {
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
