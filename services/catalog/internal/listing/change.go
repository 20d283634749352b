package listing

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Change describes the effect of an import on one listing.
type Change struct {
	Fields    []string // names of the changed fields, in the order of the file format
	Material  bool     // one of Fields is material
	Published bool     // the listing became visible
	Withdrawn bool     // the listing was withdrawn

	// KeptWithdrawn is set if the line is published and the listing stays withdrawn: only Publish
	// makes it visible again.
	KeptWithdrawn bool
}

// Create returns the entry for a line with a new id.
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

// Update returns e after an import of l, and the changes. An import can publish a private listing
// and withdraw any; it never publishes a withdrawn one. If the line has no curation or publishedAt,
// e keeps its own; if it has no facts or profile, they are removed.
func (e Entry) Update(l listingfile.Line, now time.Time) (Entry, Change) {
	updated := e
	updated.Listing = l.Listing
	if updated.PublishedAt == nil {
		updated.PublishedAt = e.PublishedAt
	}
	updated.Sources, updated.PastDates = e.redated(l.Sources)
	if l.Curation != nil {
		updated.Curation = nilIfEmpty(l.Curation)
	}
	switch {
	case l.Visibility == listingfile.Published && e.Visibility == listingfile.Private:
		updated.publish(now)
	case l.Visibility == listingfile.Withdrawn:
		updated.Visibility = listingfile.Withdrawn
	}
	changed := updated.Visibility != e.Visibility
	change := Change{
		Fields:        changedFields(e, updated),
		Published:     changed && updated.Visibility == listingfile.Published,
		Withdrawn:     changed && updated.Visibility == listingfile.Withdrawn,
		KeptWithdrawn: l.Visibility == listingfile.Published && e.Visibility == listingfile.Withdrawn,
	}
	change.Material = slices.ContainsFunc(change.Fields, Material)
	if change.Material {
		updated.ChangedAt = &now
	}
	return updated, change
}

// redated returns sources, none with a later date than it had in e or before: only a review moves a
// date forward. It also returns the past dates of the entry with these sources.
func (e Entry) redated(sources []api.Source) ([]api.Source, map[string]api.CheckDate) {
	sources, earliest := slices.Clone(sources), maps.Clone(e.PastDates)
	if earliest == nil {
		earliest = map[string]api.CheckDate{}
	}
	for _, s := range e.Sources {
		if at, known := earliest[s.URL]; s.CheckedAt != nil && (!known || later(at, *s.CheckedAt)) {
			earliest[s.URL] = *s.CheckedAt
		}
	}
	past := maps.Clone(earliest)
	for i, s := range sources {
		if s.CheckedAt == nil {
			continue
		}
		if at, known := earliest[s.URL]; known && later(*s.CheckedAt, at) {
			sources[i].CheckedAt = &at
		}
		delete(past, s.URL)
	}
	return sources, past
}

func later(a, b api.CheckDate) bool {
	x, _ := a.Time() // both were validated
	y, _ := b.Time()
	return x.After(y)
}

func (e *Entry) publish(now time.Time) {
	e.Visibility = listingfile.Published
	if e.PublishedAt == nil {
		e.PublishedAt = &now
	}
}

// field is a top-level field of the file format.
type field struct {
	name     string
	index    []int
	material bool
}

// fields lists all fields of an Entry, in the order of the file format.
var fields = func() (all []field) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Entry]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, field{name, f.Index, f.Tag.Get("change") == "material"})
		}
	}
	return all
}()

// Material reports whether a factual review covers the field with that name. After a change to such
// a field outside a review, the listing needs a new review. See api.Platform for the tag that
// decides.
func Material(name string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.name == name && f.material })
}

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

// equal is reflect.DeepEqual, except that it compares times at the precision of the database.
func equal(a, b any) bool {
	if t, ok := a.(*time.Time); ok {
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

// nilIfEmpty returns nil for an empty curation, so that there is one representation of "none".
func nilIfEmpty(c *api.Curation) *api.Curation {
	if c == nil || *c == (api.Curation{}) {
		return nil
	}
	return c
}
