package listing

import (
	"reflect"
	"slices"
	"time"
)

// material are the fields on which a factual review rests: a change of one of them outside a review puts the review in doubt.
var material = []string{"company", "applicationUrl", "category", "startingCost", "workModel", "facts"}

// Change is what an import did to one listing.
type Change struct {
	Fields    []string // names of the fields that differ, in the order of the file format; empty if nothing did
	Material  bool     // a field on which reviews rest is among them
	Published bool     // the listing became visible
}

// Create makes the entry of a listing that is new to the catalog.
func (l Line) Create(now time.Time) Entry {
	e := Entry{Listing: l.Listing, Visibility: l.Visibility, Curation: l.Curation.orNil()}
	if e.Visibility == "" {
		e.Visibility = Private
	}
	if e.Visibility == Published {
		e.publish(now)
	}
	return e
}

// Update is e after an import of l, and what that changed. An import edits what it states and never takes a listing down: of
// the visibilities only `published` acts on a listing that exists, and curation or publishedAt left out stay as they are.
// Facts and profile left out, however, say that none are recorded.
func (l Line) Update(e Entry, now time.Time) (Entry, Change) {
	updated := e
	updated.Listing = l.Listing
	if updated.PublishedAt == nil {
		updated.PublishedAt = e.PublishedAt
	}
	if l.Curation != nil {
		updated.Curation = l.Curation.orNil()
	}
	if l.Visibility == Published && e.Visibility != Published {
		updated.publish(now)
	}
	change := Change{Fields: differing(e, updated), Published: updated.Visibility != e.Visibility}
	for _, f := range change.Fields {
		change.Material = change.Material || slices.Contains(material, f)
	}
	if change.Material {
		updated.ChangedAt = &now
	}
	return updated, change
}

// Publish makes e visible and reports whether it was not.
func (e *Entry) Publish(now time.Time) bool {
	if e.Visibility == Published {
		return false
	}
	e.publish(now)
	return true
}

func (e *Entry) publish(now time.Time) {
	e.Visibility = Published
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
