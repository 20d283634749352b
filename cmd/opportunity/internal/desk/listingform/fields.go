package listingform

import (
	"cmp"
	"reflect"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// kind is the kind of a field. It decides the input and what an empty input means.
type kind int

const (
	text     kind = iota // empty: ""
	nullable             // a text or a time; empty: null
	choice               // one of options; empty: ""
	number               // empty: absent
	lines                // texts, one on each line
	object               // optional: null if all its fields are empty
	list                 // of objects; entries with empty fields only are left out
)

// node is a field of a listing, derived from the Go type.
type node struct {
	name     string
	kind     kind
	optional bool     // of an object
	options  []string // of a choice
	children []node   // of an object, and of the entries of a list
}

// fixed are the fields that the form does not have: publishing sets some, and a review covers the
// others and changes them on its sheet.
var fixed = map[string]bool{
	"id": true, "visibility": true, "publishedAt": true, "facts": true, "company": true, "applicationUrl": true,
	"category": true, "startingCost": true, "workModel": true,
}

// top has the fields of a line of a listings file.
var top = children(reflect.TypeFor[listingfile.Line]())

// Has reports whether the form has the field at a path of the API.
func Has(path string) bool {
	top, _, _ := strings.Cut(path, ".")
	return !fixed[top]
}

// enumerations are the values of the types that have few.
var enumerations = map[reflect.Type][]string{
	reflect.TypeFor[api.ExperienceKind]():  values(api.Ratings, api.Community),
	reflect.TypeFor[api.ReviewerGroup]():   values(api.Workers, api.Customers, api.Mixed),
	reflect.TypeFor[api.AssessmentLevel](): values(api.Strong, api.Moderate, api.Limited, api.AssessmentUnknown),
}

func values[T ~string](all ...T) (texts []string) {
	for _, v := range all {
		texts = append(texts, string(v))
	}
	return texts
}

func children(t reflect.Type) (all []node) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || fixed[name] {
			continue
		}
		all = append(all, newNode(name, f.Type))
	}
	return all
}

func newNode(name string, t reflect.Type) node {
	n := node{name: name}
	if n.optional = t.Kind() == reflect.Pointer; n.optional {
		t = t.Elem()
	}
	n.options = enumerations[t]
	switch {
	case t == reflect.TypeFor[time.Time]():
		n.kind = nullable
	case n.options != nil:
		n.kind = choice
	case t.Kind() == reflect.Float64, t.Kind() == reflect.Int:
		n.kind = number
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		n.kind = lines
	case t.Kind() == reflect.Slice:
		n.kind, n.children = list, children(t.Elem())
	case t.Kind() == reflect.Struct:
		n.kind, n.children = object, children(t)
	case n.optional:
		n.kind = nullable
	}
	return n
}

// labels are the labels of the fields by name, or by path without the numbers of entries if a name
// has several.
var labels = map[string]string{
	"company": "Company", "name": "Name", "website": "Website", "applicationUrl": "Application page",
	"category": "Category", "subcategory": "Subcategory", "summary": "Summary", "overview": "Overview",
	"startingCost": "Starting cost", "workModel": "Work model", "publishedAt": "First published",

	"facts": "Facts of the listing", "countryEligibility": "Countries", "country": "Country code",
	"status": "Residents are", "allRegions": "All regions", "includedRegions": "Only in", "excludedRegions": "Not in",
	"sourceUrls": "Sources", "note": "Note", "pay": "Pay", "minimum": "From", "maximum": "To", "currency": "Currency",
	"unit": "Per", "sourceUrl": "Source", "languages": "Languages", "applicationStatus": "Application status",
	"facts.applicationUrl": "Application URL", "requirements": "Requirements", "riskIndicators": "Risk indicators",
	"code": "Code",

	"sources": "Sources", "url": "URL", "checkedAt": "Checked", "companyProfile": "Company profile", "bio": "Bio",
	"text": "Text", "foundedYear": "Founded", "companyProfile.foundedYear.value": "Year",
	"experienceSources": "Experience sources", "publisher": "Publisher", "kind": "Kind", "reviewerGroup": "Written by",
	"rating": "Rating", "value": "Average", "best": "Best possible", "worst": "Worst possible",
	"count": "Number of ratings", "evidenceAssessment": "Evidence", "level": "Level",

	"curation": "Private notes", "contact": "Contact", "notes": "Notes",
}

// entryLabels are the labels of one entry of a list, by its name.
var entryLabels = map[string]string{
	"countryEligibility": "Country", "riskIndicators": "Risk indicator", "sources": "Source",
	"experienceSources": "Experience source",
}

func init() {
	for _, f := range api.BoolFacts {
		labels[f.Name] = f.Label
	}
}

// labelOf returns the label of the field at a path without the numbers of entries, which has a name.
func labelOf(plain, name string) string { return cmp.Or(labels[plain], labels[name]) }

// hints explain fields, by the name of the field.
var hints = map[string]string{
	"checkedAt": "Such as 2026-11-20",
	"curation":  "For curators only. They are never part of a response of the API.",
}

// long are the texts that have several lines.
var long = map[string]bool{"overview": true, "summary": true, "text": true, "note": true, "notes": true}
