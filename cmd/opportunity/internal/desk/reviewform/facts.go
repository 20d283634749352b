package reviewform

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Fact is a fact as the form shows it.
type Fact struct {
	Name    string // in JSON
	Label   string
	Key     string   // shortcut that follows f
	Options []Option // values to choose from; empty if the fact has fields of its own
}

// Option is a value of a fact. Its Value is JSON.
type Option struct{ Value, Label, Key string }

var (
	yesOrNo = []Option{{"true", "Yes", "y"}, {"false", "No", "n"}}
	states  = []Option{
		{closedStatus, "Closed", "c"}, {`"` + string(api.ApplicationOpen) + `"`, "Open", "p"}, {`"` +
			string(api.ApplicationWaitlist) + `"`, "Waitlist", "w"},
	}
)

// closedStatus is the JSON of the application status that an outcome of closed implies.
const closedStatus = `"` + string(api.ApplicationClosed) + `"`

// Facts has every fact once, in the order of the form.
var Facts = slices.Concat([]Fact{{Name: "countryEligibility", Label: "Countries and regions", Key: "c"}}, conditions(),
	[]Fact{
		{Name: "pay", Label: "Pay", Key: "p"},
		{Name: "languages", Label: "Languages", Key: "l"},
		{Name: "requirements", Label: "Requirements", Key: "q"},
		{Name: "applicationStatus", Label: "Application status", Key: "a", Options: states},
		{Name: "applicationUrl", Label: "Application URL", Key: "u"},
		{Name: "riskIndicators", Label: "Risk indicators", Key: "w"},
	})

// conditions returns the facts that are true, false or unknown. The first letter of a label is its
// key.
func conditions() (facts []Fact) {
	for _, f := range api.BoolFacts {
		facts = append(facts, Fact{Name: f.Name, Label: f.Label, Key: strings.ToLower(f.Label[:1]), Options: yesOrNo})
	}
	return facts
}

// Label returns the label of a fact, or name if there is no such fact.
func Label(name string) string { return cmp.Or(find(name).Label, name) }

// find returns the fact with the name, or the zero value.
func find(name string) (found Fact) {
	if i := slices.IndexFunc(Facts, func(f Fact) bool { return f.Name == name }); i >= 0 {
		found = Facts[i]
	}
	return found
}

// Values returns every fact as JSON, by name.
func Values(f api.Facts) map[string]json.RawMessage {
	f.Complete()
	var values map[string]json.RawMessage
	text, _ := json.Marshal(f) // facts always encode
	_ = json.Unmarshal(text, &values)
	return values
}

// Differences returns the names of the facts in which a and b differ, in the order of
// api.FactNames.
func Differences(a, b api.Facts) (names []string) {
	before, after := Values(a), Values(b)
	for _, name := range api.FactNames {
		if string(before[name]) != string(after[name]) {
			names = append(names, name)
		}
	}
	return names
}

// unknown is the JSON of each fact that is unknown.
var unknown = Values(api.UnknownFacts())

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
	default:
		value := Values(f)[name]
		if string(value) == string(unknown[name]) {
			return nil
		}
		for _, o := range append(yesOrNo, states...) {
			if o.Value == string(value) {
				return []string{o.Label}
			}
		}
		var text string
		_ = json.Unmarshal(value, &text) // the application URL
		lines = []string{text}
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
