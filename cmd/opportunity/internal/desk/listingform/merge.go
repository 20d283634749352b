package listingform

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// Difference is a field that another editor changed in the meantime. Yours is the edited value; it
// is nil unless both changed the field.
type Difference struct {
	Path              string
	Shown, Now, Yours json.RawMessage
}

// Rebase makes the form one of a newer version of the listing. It keeps every changed input and
// takes over the other changes. It returns what changed between the two versions.
func (f *Form) Rebase(listing json.RawMessage) ([]Difference, error) {
	current, err := decode(listing)
	if err != nil {
		return nil, err
	}
	var differences []Difference
	merged, _ := merge(&differences, "", f.base, f.edited, current).(map[string]any)
	f.base, f.edited = current, merged
	return differences, nil
}

// merge returns a value with the changes from base to edited and from base to current. If both
// changed it differently, it returns edited. Lists count as one value.
func merge(differences *[]Difference, path string, base, edited, current any) any {
	if reflect.DeepEqual(base, current) {
		return edited
	}
	was, isTree := base.(map[string]any)
	mine, mineToo := edited.(map[string]any)
	theirs, theirsToo := current.(map[string]any)
	if isTree && mineToo && theirsToo {
		names, merged := maps.Clone(was), map[string]any{}
		maps.Copy(names, mine)
		maps.Copy(names, theirs)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			merged[name] = merge(differences, join(path, name), was[name], mine[name], theirs[name])
		}
		return merged
	}
	d := Difference{Path: path, Shown: encode(base), Now: encode(current)}
	merged := current
	if !reflect.DeepEqual(edited, base) && !reflect.DeepEqual(edited, current) {
		d.Yours, merged = encode(edited), edited
	}
	*differences = append(*differences, d)
	return merged
}
