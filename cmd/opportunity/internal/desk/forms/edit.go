package forms

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// ErrForeign is the error for input that no form of the desk sends.
var ErrForeign = errors.New("foreign form")

// Edit is the form of an edit of a listing. A field whose input was not changed keeps its JSON
// value, even one that the form cannot express.
type Edit struct {
	base, edited map[string]any // listing that the editor was shown, and as edited
}

// NewEdit returns the form of a listing without changes.
func NewEdit(listing json.RawMessage) (Edit, error) {
	base, err := decode(listing)
	return Edit{base: base, edited: base}, err
}

// ParseEdit returns the form with submitted input, and what is wrong with it. It returns
// ErrForeign for input that no form of the desk sends.
func ParseEdit(input url.Values) (Edit, []pages.FormError, error) {
	e, err := NewEdit(json.RawMessage(input.Get("base")))
	if err != nil {
		return e, nil, fmt.Errorf("%w: its listing: %w", ErrForeign, err)
	}
	r := reader{input: input}
	e.edited = maps.Clone(e.base)
	for _, f := range editable {
		e.edited[f.Name] = r.value(f, f.Name, f.Name, e.base[f.Name])
	}
	return e, r.problems, nil
}

func decode(text []byte) (object map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err = dec.Decode(&object); err == nil && object == nil {
		err = fmt.Errorf("it is null")
	}
	return object, err
}

// Base returns the listing that the editor was shown.
func (e Edit) Base() string { return string(encode(e.base)) }

// Listing returns the listing as edited: a line of a listings file.
func (e Edit) Listing() json.RawMessage { return encode(e.edited) }

func encode(v any) json.RawMessage {
	text, _ := api.Encode(v) // values of JSON, and types that always encode
	return text
}

// ID identifies the edited listing, so that a confirmation applies to it only.
func (e Edit) ID() string {
	sum := sha256.Sum256(e.Listing())
	return hex.EncodeToString(sum[:])
}

// Fields returns the fields with the input.
func (e Edit) Fields() []Field {
	input := url.Values{}
	fill(editable, "", e.edited, input)
	return show(editable, "", input)
}

// Difference is a field that another editor changed in the meantime. Yours is the edited value; it
// is nil unless both changed the field.
type Difference struct {
	Path              string
	Shown, Now, Yours json.RawMessage
}

// Rebase makes the form one of a newer version of the listing. It keeps every changed input and
// takes over the other changes. It returns what changed between the two versions.
func (e *Edit) Rebase(listing json.RawMessage) ([]Difference, error) {
	current, err := decode(listing)
	if err != nil {
		return nil, err
	}
	var differences []Difference
	merged, _ := merge(&differences, "", e.base, e.edited, current).(map[string]any)
	e.base, e.edited = current, merged
	return differences, nil
}

// merge returns a value with the changes from base to edited and from base to current. If both
// changed it differently, it returns edited. Lists count as one value.
func merge(differences *[]Difference, path string, base, edited, current any) any {
	if reflect.DeepEqual(base, current) {
		return edited
	}
	was, isObject := base.(map[string]any)
	mine, mineToo := edited.(map[string]any)
	theirs, theirsToo := current.(map[string]any)
	if isObject && mineToo && theirsToo {
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
