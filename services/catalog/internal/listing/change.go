package listing

import (
	"reflect"
	"slices"
	"time"

	"opportunity.internal/pkg/listingfile"
)

// Material are the fields on which a factual review rests: a change of one of them outside a review puts the review in doubt.
var Material = []string{"company", "applicationUrl", "category", "startingCost", "workModel", "facts"}

// Change is what an import did to one listing.
type Change struct {
	Fields    []string // names of the fields that differ, in the order of the file format; empty if nothing did
	Material  bool     // a field on which reviews rest is among them
	Published bool     // the listing became visible
}

// Create makes the entry of a line whose listing is new to the catalog.
func Create(l listingfile.Line, now time.Time) Entry {
	e := Entry{Listing: l.Listing, Visibility: l.Visibility, Curation: orNil(l.Curation)}
	if e.Visibility == "" {
		e.Visibility = listingfile.Private
	}
	if e.Visibility == listingfile.Published {
		e.publish(now)
	}
	return e
}

// Update is e after an import of l, and what that changed. An import edits what it states and never takes a listing down: of
// the visibilities only `published` acts on a listing that exists, and curation or publishedAt left out stay as they are.
// Facts and profile left out, however, say that none are recorded.
func (e Entry) Update(l listingfile.Line, now time.Time) (Entry, Change) {
	updated := e
	updated.Listing = l.Listing
	if updated.PublishedAt == nil {
		updated.PublishedAt = e.PublishedAt
	}
	if l.Curation != nil {
		updated.Curation = orNil(l.Curation)
	}
	if l.Visibility == listingfile.Published && e.Visibility != listingfile.Published {
		updated.publish(now)
	}
	change := Change{Fields: differing(e, updated), Published: updated.Visibility != e.Visibility}
	for _, f := range change.Fields {
		change.Material = change.Material || slices.Contains(Material, f)
	}
	if change.Material {
		updated.ChangedAt = &now
	}
	return updated, change
}

// Publish makes e visible and reports whether it was not.
func (e *Entry) Publish(now time.Time) bool {
	if e.Visibility == listingfile.Published {
		return false
	}
	e.publish(now)
	return true
}

func (e *Entry) publish(now time.Time) {
	e.Visibility = listingfile.Published
	if e.PublishedAt == nil {
		e.PublishedAt = &now
	}
}

func differing(a, b Entry) []string {
	var names []string
	add := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			names = append(names, name)
		}
	}
	add("company", a.Company, b.Company)
	add("applicationUrl", a.ApplicationURL, b.ApplicationURL)
	add("category", a.Category, b.Category)
	add("subcategory", a.Subcategory, b.Subcategory)
	add("summary", a.Summary, b.Summary)
	add("overview", a.Overview, b.Overview)
	add("startingCost", a.StartingCost, b.StartingCost)
	add("workModel", a.WorkModel, b.WorkModel)
	add("publishedAt", micros(a.PublishedAt), micros(b.PublishedAt))
	add("facts", a.Facts, b.Facts)
	add("sources", a.Sources, b.Sources)
	add("companyProfile", a.CompanyProfile, b.CompanyProfile)
	add("visibility", a.Visibility, b.Visibility)
	add("curation", a.Curation, b.Curation)
	return names
}

func micros(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

// orNil gives "nothing noted" its one form, nil.
func orNil(c *listingfile.Curation) *listingfile.Curation {
	if c == nil || *c == (listingfile.Curation{}) {
		return nil
	}
	return c
}
