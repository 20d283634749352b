// Package forms has the forms of the desk: Edit, of a listing, and Review, the factual review of
// one. NewReview makes the form of a review sheet, ParseReview that of submitted input, and
// Review.Read the review that is sent.
//
// The tables in this file have each field of a listing once: its name in JSON, its label and the
// kind of its input. Both forms, the labels of paths and the texts of facts derive from them. The
// input of a form is url.Values, with the path of a field in JSON as its name, such as
// sources.0.url.
package forms

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Field is a field of a listing, or a group of them. Show completes it for a page.
type Field struct {
	Name    string // in JSON
	Label   string
	Hint    string
	Key     string // shortcut that follows f on the review sheet
	Kind    Kind
	Options []Option // of a choice; the first one is the same as no input
	Entry   string   // label of an entry of a list
	Fields  []Field  // of a group, and of each entry of a list; as shown, the entries

	Path   string   // name and id of the input
	Values []string // of the input
	Blank  bool     // the entry of a list is for a further one

	Placeholder string // of a text input
}

// Chosen reports whether a value of the field is chosen.
func (f Field) Chosen(value string) bool { return slices.Contains(f.Values, value) }

// Value returns the value of an input that has one.
func (f Field) Value() string { return strings.Join(f.Values, "\n") }

// Option is a value to choose. The options of a fact are JSON.
type Option struct{ Value, Label, Key string }

// Kind is the kind of a field. It decides the input and what an empty input means.
type Kind string

// Kinds of fields.
const (
	Text     Kind = ""         // empty: ""
	Long     Kind = "long"     // Text of several lines
	Nullable Kind = "nullable" // a text or a time; empty: null
	Choice   Kind = "choice"   // one of Options
	Decision Kind = "decision" // a fact whose Options are decisions of a review
	YesNo    Kind = "yesno"    // true or false; empty: null
	Number   Kind = "number"   // empty: absent
	Amount   Kind = "amount"   // a Number that is required
	Lines    Kind = "lines"    // texts, one on each line
	Regions  Kind = "regions"  // codes, or names in Canada
	Boxes    Kind = "boxes"    // Regions with a box for each
	Source   Kind = "source"   // one of the sources of a review
	Sources  Kind = "sources"
	Group    Kind = "group"
	Optional Kind = "optional" // a Group; null if all its fields are empty
	List     Kind = "list"     // of groups; entries with empty fields only are left out
)

// editable are the fields of the edit form.
var editable = []Field{
	{Name: "subcategory", Label: "Subcategory", Kind: Nullable},
	{Name: "summary", Label: "Summary", Kind: Long},
	{Name: "overview", Label: "Overview", Kind: Long},
	{Name: "sources", Label: "Sources", Kind: List, Entry: "Source",
		Fields: []Field{{Name: "url", Label: "URL"}, checked}},
	{Name: "companyProfile", Label: "Company profile", Kind: Optional, Fields: []Field{
		{Name: "bio", Label: "Bio", Kind: Optional,
			Fields: []Field{{Name: "text", Label: "Text", Kind: Long}, cited, checkedText}},
		{Name: "foundedYear", Label: "Founded", Kind: Optional,
			Fields: []Field{{Name: "value", Label: "Year", Kind: Number}, cited, checkedText}},
		{Name: "experienceSources", Label: "Experience sources", Kind: List, Entry: "Experience source", Fields: []Field{
			{Name: "url", Label: "URL"}, {Name: "publisher", Label: "Publisher"},
			{Name: "kind", Label: "Kind", Kind: Choice, Options: options("", api.Ratings, api.Community)},
			{Name: "reviewerGroup", Label: "Written by", Kind: Choice,
				Options: options("", api.Workers, api.Customers, api.Mixed)},
			{Name: "rating", Label: "Rating", Kind: Optional, Fields: []Field{
				{Name: "value", Label: "Average", Kind: Number}, {Name: "best", Label: "Best possible", Kind: Number},
				{Name: "worst", Label: "Worst possible", Kind: Number},
				{Name: "count", Label: "Number of ratings", Kind: Number},
			}},
			checkedText,
		}},
		{Name: "evidenceAssessment", Label: "Evidence", Kind: Optional, Fields: []Field{
			{Name: "level", Label: "Level", Kind: Choice,
				Options: options("", api.Strong, api.Moderate, api.Limited, api.AssessmentUnknown)},
			{Name: "note", Label: "Note", Kind: Long}, checkedText,
		}},
	}},
	{Name: "curation", Label: "Private notes", Kind: Optional,
		Hint: "For curators only. They are never part of a response of the API.", Fields: []Field{
			{Name: "contact", Label: "Contact"}, {Name: "notes", Label: "Notes", Kind: Long},
		}},
}

var (
	cited       = Field{Name: "sourceUrl", Label: "Source"}
	checkedText = Field{Name: "checkedAt", Label: "Checked", Hint: "Such as 2026-11-20"}
	checked     = Field{Name: "checkedAt", Label: "Checked", Hint: "Such as 2026-11-20", Kind: Nullable}
)

// covered are the other fields: publishing sets the first one, and a review covers the rest.
var covered = []Field{
	{Name: "publishedAt", Label: "First published"},
	{Name: "company", Kind: Group, Fields: []Field{
		{Name: "name", Label: "Company name", Key: "n"}, {Name: "website", Label: "Website", Key: "b"},
	}},
	{Name: "applicationUrl", Label: "Application page", Key: "g"},
	{Name: "category", Label: "Category", Key: "t", Kind: Choice, Options: options(api.Categories...)},
	{Name: "startingCost", Label: "Starting cost", Key: "s"},
	{Name: "workModel", Label: "Work model", Key: "i"},
	{Name: "facts", Label: "Facts of the listing", Kind: Group, Fields: Facts},
}

// Facts has every fact once, in the order of the review sheet.
var Facts = slices.Concat([]Field{
	{Name: "countryEligibility", Label: "Countries and regions", Key: "c", Kind: List, Entry: "Country", Fields: []Field{
		{Name: "country", Label: "Country"},
		{Name: "status", Label: "Residents are", Kind: Choice, Options: []Option{
			{Value: string(api.Eligible), Label: "eligible"}, {Value: string(api.Ineligible), Label: "not eligible"},
			{Value: string(api.EligibilityUnknown), Label: "unknown"},
		}},
		{Name: "allRegions", Label: "All regions", Kind: YesNo,
			Options: []Option{{"", "unknown", ""}, {"true", "yes", ""}, {"false", "no", ""}}},
		{Name: "includedRegions", Label: "Only in", Kind: Regions},
		{Name: "excludedRegions", Label: "Not in", Kind: Regions},
		{Name: "sourceUrls", Label: "Sources", Kind: Sources},
		{Name: "note", Label: "Note"},
	}},
}, conditions(), []Field{
	{Name: "pay", Label: "Pay", Key: "p", Kind: Group, Fields: []Field{
		{Name: "minimum", Label: "From", Kind: Amount}, {Name: "maximum", Label: "To", Kind: Amount},
		{Name: "currency", Label: "Currency"},
		{Name: "unit", Label: "Per", Kind: Choice, Options: options(api.PayUnits...)},
		{Name: "sourceUrl", Label: "Source", Kind: Source},
	}},
	{Name: "languages", Label: "Languages", Key: "l", Kind: Lines},
	{Name: "requirements", Label: "Requirements", Key: "q", Kind: Lines},
	{Name: "applicationStatus", Label: "Application status", Key: "a", Kind: Decision, Options: states},
	{Name: "applicationUrl", Label: "Application URL", Key: "u", Kind: Nullable},
	{Name: "riskIndicators", Label: "Risk indicators", Key: "w", Kind: List, Entry: "Risk indicator", Fields: []Field{
		{Name: "code", Label: "Code"}, {Name: "note", Label: "Note"}, {Name: "sourceUrl", Label: "Source", Kind: Source},
	}},
})

var (
	yesOrNo = []Option{{"true", "Yes", "y"}, {"false", "No", "n"}}
	states  = []Option{
		{closedStatus, "Closed", "c"}, {`"` + string(api.ApplicationOpen) + `"`, "Open", "p"},
		{`"` + string(api.ApplicationWaitlist) + `"`, "Waitlist", "w"},
	}
)

// closedStatus is the JSON of the application status that an outcome of closed implies.
const closedStatus = `"` + string(api.ApplicationClosed) + `"`

// conditions returns the facts that are true, false or unknown. The first letter of a label is its
// key.
func conditions() (facts []Field) {
	for _, f := range api.BoolFacts {
		facts = append(facts, Field{Name: f.Name, Label: f.Label, Key: strings.ToLower(f.Label[:1]), Kind: Decision,
			Options: yesOrNo})
	}
	return facts
}

func options[T ~string](values ...T) (all []Option) {
	for _, v := range values {
		all = append(all, Option{Value: string(v), Label: string(v)})
	}
	return all
}

// Editable reports whether the edit form has the field at a path of the API.
func Editable(path string) bool {
	top, _, _ := strings.Cut(path, ".")
	return find(editable, top).Name != ""
}

// find returns the field with the name, or the zero value.
func find(fields []Field, name string) (found Field) {
	if i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name }); i >= 0 {
		found = fields[i]
	}
	return found
}

// at returns the field at a path without entries of lists, such as company.name.
func at(path string) (found Field) {
	fields := covered
	for name := range strings.SplitSeq(path, ".") {
		found = find(fields, name)
		fields = found.Fields
	}
	return found
}

// PathOf returns the path of a field in a form for one of the API, such as sources.0.url for
// sources[0].url.
func PathOf(path string) string { return strings.NewReplacer("[", ".", "]", "").Replace(path) }

// LabelOf returns the label of a field of a listing for its path in the API, such as "Source 1,
// URL" for sources[0].url, or the path if there is no such field.
func LabelOf(path string) string { return label(slices.Concat(editable, covered), path) }

// FactLabel is LabelOf for a path in the facts, such as "Pay, From" for pay.minimum.
func FactLabel(path string) string { return label(Facts, path) }

func label(fields []Field, path string) string {
	var parts []string
	var last Field
	for name := range strings.SplitSeq(PathOf(path), ".") {
		if n, err := strconv.Atoi(name); err == nil && len(parts) > 0 {
			parts[len(parts)-1] = fmt.Sprintf("%s %d", cmp.Or(last.Entry, last.Label), n+1)
			continue
		}
		if last = find(fields, name); last.Name == "" {
			return path
		}
		if fields = last.Fields; last.Label != "" {
			parts = append(parts, last.Label)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), path)
}
