package listing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Compare describes an import that changes before to after, as of now; before is nil for a new
// listing. summary is the zero value if history has none for the listing.
func Compare(before *Entry, after Entry, summary api.Summary, now time.Time) (api.ListingChange, error) {
	c := api.ListingChange{ID: after.ID, Change: api.ListingCreated, Fields: []api.FieldChange{}}
	c.Published = after.Visibility == listingfile.Published &&
		(before == nil || before.Visibility != listingfile.Published)
	neededReview := false
	if before != nil {
		c.Change = api.ListingUpdated
		c.Withdrawn = after.Visibility == listingfile.Withdrawn && before.Visibility != listingfile.Withdrawn
		neededReview = before.Visibility == listingfile.Published &&
			summary.StatusAt(before.ChangedAt, now) == api.NeedsReview
		old, err := jsonTree(*before)
		if err != nil {
			return c, err
		}
		updated, err := jsonTree(after)
		if err != nil {
			return c, err
		}
		c.Fields = appendDifferences(c.Fields, "", old, updated)
	}
	c.NeedsReview = !neededReview && after.Visibility == listingfile.Published &&
		summary.StatusAt(after.ChangedAt, now) == api.NeedsReview
	return c, nil
}

func jsonTree(e Entry) (any, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	err = dec.Decode(&v)
	return v, err
}

// appendDifferences appends the differences between two JSON trees, each at the longest possible
// path. Arrays of different lengths differ as a whole.
func appendDifferences(changes []api.FieldChange, path string, old, updated any) []api.FieldChange {
	switch a := old.(type) {
	case map[string]any:
		b, same := updated.(map[string]any)
		if !same {
			break
		}
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			changes = appendDifferences(changes, strings.TrimPrefix(path+"."+name, "."), a[name], b[name])
		}
		return changes
	case []any:
		b, same := updated.([]any)
		if !same || len(a) != len(b) {
			break
		}
		for i := range a {
			changes = appendDifferences(changes, fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
		}
		return changes
	}
	before, after := marshalPart(old), marshalPart(updated)
	if bytes.Equal(before, after) {
		return changes
	}
	return append(changes, api.FieldChange{Field: path, Old: before, New: after})
}

// marshalPart returns the JSON of a part of a tree. Members are sorted by name, so equal parts have
// equal JSON.
func marshalPart(v any) json.RawMessage {
	text, _ := api.Encode(v) // it was decoded from JSON
	return text
}
