package listing

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/listingfile"
)

// Material lists the fields on which a factual review rests: a change of one of them outside a review puts the review in doubt.
var Material = []string{"company", "applicationUrl", "category", "startingCost", "workModel", "facts"}

// Change describes what an import did to one listing.
type Change struct {
	Fields    []string // names of the fields that differ, in the order of the file format; empty if nothing did
	Material  bool     // a field on which reviews rest is among them
	Published bool     // the listing became visible

	// KeptWithdrawn is set if the line says published and the listing stays withdrawn: only an operator publishes it again.
	KeptWithdrawn bool
}

// Create returns the entry for a line whose listing is new to the catalog.
func Create(l listingfile.Line, now time.Time) Entry {
	e := Entry{Listing: l.Listing, Visibility: l.Visibility, Curation: nilIfEmpty(l.Curation)}
	if e.Visibility == "" {
		e.Visibility = listingfile.Private
	}
	if e.Visibility == listingfile.Published {
		e.publish(now)
	}
	return e
}

// Update returns e after an import of l, and what changed. An import edits what the line states. It never takes a listing down and
// never publishes a withdrawn one: of the visibilities only `published` acts on a listing that exists, and only on a private one.
// A curation or publishedAt that is left out stays as it is; facts and profile that are left out are removed.
func (e Entry) Update(l listingfile.Line, now time.Time) (Entry, Change) {
	updated := e
	updated.Listing = l.Listing
	if updated.PublishedAt == nil {
		updated.PublishedAt = e.PublishedAt
	}
	if l.Curation != nil {
		updated.Curation = nilIfEmpty(l.Curation)
	}
	if l.Visibility == listingfile.Published && e.Visibility == listingfile.Private {
		updated.publish(now)
	}
	change := Change{
		Fields:        changedFields(e, updated),
		Published:     updated.Visibility != e.Visibility,
		KeptWithdrawn: l.Visibility == listingfile.Published && e.Visibility == listingfile.Withdrawn,
	}
	change.Material = slices.ContainsFunc(change.Fields, func(f string) bool { return slices.Contains(Material, f) })
	if change.Material {
		updated.ChangedAt = &now
	}
	return updated, change
}

func (e *Entry) publish(now time.Time) {
	e.Visibility = listingfile.Published
	if e.PublishedAt == nil {
		e.PublishedAt = &now
	}
}

// field is a part of an entry that has a name of its own in the file format.
type field struct {
	name  string
	index []int
}

// fields are all of them, in the order of the file format.
var fields = func() (all []field) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Entry]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, field{name, f.Index})
		}
	}
	return all
}()

// differing names the fields in which a and b differ.
func changedFields(a, b Entry) []string {
	var names []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for _, f := range fields {
		if !equal(x.FieldByIndex(f.index).Interface(), y.FieldByIndex(f.index).Interface()) {
			names = append(names, f.name)
		}
	}
	return names
}

// equal is reflect.DeepEqual, except that instants are equal if they are stored alike.
func equal(a, b any) bool {
	if t, is := a.(*time.Time); is {
		u, _ := b.(*time.Time)
		return micros(t) == micros(u)
	}
	return reflect.DeepEqual(a, b)
}

func micros(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

// orNil gives "nothing noted" its one form, nil.
func nilIfEmpty(c *listingfile.Curation) *listingfile.Curation {
	if c == nil || *c == (listingfile.Curation{}) {
		return nil
	}
	return c
}
