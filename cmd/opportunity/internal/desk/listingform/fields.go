package listingform

import (
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
	boolean              // true, false or null
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
	material bool     // of a top-level field: a change puts the latest review in doubt
	options  []string // of a choice
	children []node   // of an object, and of the entries of a list
}

// fixed are the fields that an edit cannot change.
var fixed = map[string]bool{"id": true, "visibility": true}

// top has the fields of a line of a listings file.
var top = children(reflect.TypeFor[listingfile.Line]())

// enumerations are the values of the types that have few.
var enumerations = map[reflect.Type][]string{
	reflect.TypeFor[api.Category]():          values(api.Categories...),
	reflect.TypeFor[api.Eligibility]():       values(api.Eligible, api.Ineligible, api.EligibilityUnknown),
	reflect.TypeFor[api.PayUnit]():           values(api.PayUnits...),
	reflect.TypeFor[api.ApplicationStatus](): values(api.ApplicationStatuses...),
	reflect.TypeFor[api.ExperienceKind]():    values(api.Ratings, api.Community),
	reflect.TypeFor[api.ReviewerGroup]():     values(api.Workers, api.Customers, api.Mixed),
	reflect.TypeFor[api.AssessmentLevel]():   values(api.Strong, api.Moderate, api.Limited, api.AssessmentUnknown),
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
		n := newNode(name, f.Type)
		n.material = f.Tag.Get("change") == "material"
		all = append(all, n)
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
	case t.Kind() == reflect.Bool:
		n.kind = boolean
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

// labels are the labels of the fields by path, without the numbers of entries.
var labels = map[string]string{
	"company": "Company", "company.name": "Name", "company.website": "Website",
	"applicationUrl": "Application page", "category": "Category", "subcategory": "Subcategory", "summary": "Summary", "overview": "Overview",
	"startingCost": "Starting cost", "workModel": "Work model", "publishedAt": "First published",

	"facts": "Facts of the listing", "facts.countryEligibility": "Countries", "facts.countryEligibility.country": "Country code",
	"facts.countryEligibility.status": "Residents are", "facts.countryEligibility.allRegions": "All regions",
	"facts.countryEligibility.includedRegions": "Only in", "facts.countryEligibility.excludedRegions": "Not in",
	"facts.countryEligibility.sourceUrls": "Sources", "facts.countryEligibility.note": "Note",
	"facts.pay": "Pay", "facts.pay.minimum": "From", "facts.pay.maximum": "To", "facts.pay.currency": "Currency", "facts.pay.unit": "Per", "facts.pay.sourceUrl": "Source",
	"facts.languages": "Languages", "facts.applicationStatus": "Application status", "facts.applicationUrl": "Application URL",
	"facts.requirements": "Requirements", "facts.riskIndicators": "Risk indicators", "facts.riskIndicators.code": "Code",
	"facts.riskIndicators.note": "Note", "facts.riskIndicators.sourceUrl": "Source",

	"sources": "Sources", "sources.url": "URL", "sources.checkedAt": "Checked",

	"companyProfile": "Company profile", "companyProfile.bio": "Bio", "companyProfile.bio.text": "Text", "companyProfile.bio.sourceUrl": "Source",
	"companyProfile.bio.checkedAt": "Checked", "companyProfile.foundedYear": "Founded", "companyProfile.foundedYear.value": "Year",
	"companyProfile.foundedYear.sourceUrl": "Source", "companyProfile.foundedYear.checkedAt": "Checked",
	"companyProfile.experienceSources": "Experience sources", "companyProfile.experienceSources.url": "URL",
	"companyProfile.experienceSources.publisher": "Publisher", "companyProfile.experienceSources.kind": "Kind",
	"companyProfile.experienceSources.reviewerGroup": "Written by", "companyProfile.experienceSources.checkedAt": "Checked",
	"companyProfile.experienceSources.rating": "Rating", "companyProfile.experienceSources.rating.value": "Average",
	"companyProfile.experienceSources.rating.best": "Best possible", "companyProfile.experienceSources.rating.worst": "Worst possible",
	"companyProfile.experienceSources.rating.count": "Number of ratings",
	"companyProfile.evidenceAssessment":             "Evidence", "companyProfile.evidenceAssessment.level": "Level",
	"companyProfile.evidenceAssessment.note": "Note", "companyProfile.evidenceAssessment.checkedAt": "Checked",

	"curation": "Private notes", "curation.contact": "Contact", "curation.notes": "Notes",
}

// entryLabels are the labels of one entry of a list.
var entryLabels = map[string]string{
	"facts.countryEligibility": "Country", "facts.riskIndicators": "Risk indicator", "sources": "Source",
	"companyProfile.experienceSources": "Experience source",
}

func init() {
	for _, f := range api.BoolFacts {
		labels["facts."+f.Name] = f.Label
	}
}

// hints explain fields, by the name or the path of the field.
var hints = map[string]string{
	"checkedAt": "Such as 2026-11-20", "publishedAt": "UTC, such as 2026-11-20T09:00:00Z. Publishing sets it.",
	"includedRegions": "Such as CA-ON, one on each line", "excludedRegions": "One on each line", "sourceUrls": "URLs, one on each line",
	"languages": "One on each line", "requirements": "One on each line", "currency": "Such as CAD", "country": "Such as CA",
	"facts":    "What the listing itself says. While a review has other facts, consumers see those of the review.",
	"curation": "For curators only. They are never part of a response of the API.",
}

// long are the texts that have several lines.
var long = map[string]bool{"overview": true, "summary": true, "text": true, "note": true, "notes": true}
