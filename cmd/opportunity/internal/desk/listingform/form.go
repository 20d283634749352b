// Package listingform is the form of an edit of a listing: its fields, and the listing that its
// input means.
//
// The fields derive from the type of a line of a listings file, so the form has every field of it.
// A field whose input was not changed keeps its JSON value, even one that the form cannot express.
package listingform

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Form is the input of an edit.
type Form struct {
	base, edited map[string]any // listing that the editor was shown, and as edited
}

// Problem is a mistake in the input. Field is the id of an element of the form, or empty.
type Problem struct{ Field, Message string }

// New returns the form of a listing without changes.
func New(listing json.RawMessage) (Form, error) {
	base, err := decode(listing)
	return Form{base: base, edited: base}, err
}

// Parse returns the form with submitted input. It returns an error for input that no form of the
// desk sends.
func Parse(input url.Values) (Form, []Problem, error) {
	f, err := New(json.RawMessage(input.Get("base")))
	if err != nil {
		return f, nil, fmt.Errorf("listing of the form: %w", err)
	}
	r := reader{input: input}
	f.edited, _ = r.object(node{kind: object, children: top}, "", "", f.base).(map[string]any)
	for name := range fixed {
		if value, given := f.base[name]; given {
			f.edited[name] = value
		}
	}
	return f, r.problems, nil
}

func decode(text []byte) (tree map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err = dec.Decode(&tree); err == nil && tree == nil {
		err = fmt.Errorf("it is null")
	}
	return tree, err
}

// Base returns the listing that the editor was shown.
func (f Form) Base() string { return string(encode(f.base)) }

// Listing returns the listing as edited: a line of a listings file.
func (f Form) Listing() json.RawMessage { return encode(f.edited) }

func encode(v any) json.RawMessage {
	text, _ := api.Encode(v) // it was decoded from JSON
	return text
}

// ID identifies the edited listing, so that a confirmation applies to it only.
func (f Form) ID() string {
	sum := sha256.Sum256(f.Listing())
	return hex.EncodeToString(sum[:])
}

// Field is a field as a page shows it.
type Field struct {
	Path, Label, Hint string // Path is the name and the id of its input
	Kind              string // text, long, choice, group or list
	Value             string
	Options           []string
	Fields            []Field // of a group; the entries of a list
}

// blanks is the number of empty entries at the end of a list.
const blanks = 1

// Fields returns the fields with the input.
func (f Form) Fields() []Field { return fields(top, "", "", f.edited) }

func fields(nodes []node, path, plain string, tree map[string]any) (all []Field) {
	for _, n := range nodes {
		all = append(all, n.field(join(path, n.name), join(plain, n.name), tree[n.name]))
	}
	return all
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// field returns the field at path with a value. plain is the path without the numbers of entries.
func (n node) field(path, plain string, value any) Field {
	f := Field{Path: path, Label: labelOf(plain, n.name), Hint: hints[n.name], Kind: "text", Value: n.format(value),
		Options: n.options}
	switch n.kind {
	case object:
		tree, _ := value.(map[string]any)
		f.Kind, f.Fields = "group", fields(n.children, path, plain, tree)
	case list:
		f.Kind = "list"
		entries, _ := value.([]any)
		for i := range len(entries) + blanks {
			var tree map[string]any
			if i < len(entries) {
				tree, _ = entries[i].(map[string]any)
			}
			at := fmt.Sprintf("%s.%d", path, i)
			f.Fields = append(f.Fields, Field{Path: at, Label: fmt.Sprintf("%s %d", entryLabels[n.name], i+1), Kind: "group",
				Fields: fields(n.children, at, plain, tree)})
		}
	case choice:
		f.Kind = "choice"
	case lines:
		f.Kind = "long"
	default:
		if long[n.name] || strings.ContainsAny(f.Value, "\r\n") {
			f.Kind = "long"
		}
	}
	return f
}

func (n node) format(value any) string {
	switch v := value.(type) {
	case []any:
		texts := make([]string, len(v))
		for i, item := range v {
			texts[i] = fmt.Sprint(item)
		}
		if n.kind == lines {
			return strings.Join(texts, "\n")
		}
	case json.Number:
		return api.FormatNumber(v)
	case string:
		return v
	}
	return ""
}

// PathOf returns the path of a field in the form for one of the API, such as sources.0.url for
// sources[0].url.
func PathOf(path string) string {
	return strings.NewReplacer("[", ".", "]", "").Replace(path)
}

// LabelOf returns the label of a field for its path in the API, such as "Source 1, URL" for
// sources[0].url.
func LabelOf(path string) string {
	var parts []string
	plain, last := "", ""
	for name := range strings.SplitSeq(PathOf(path), ".") {
		if strings.Trim(name, "0123456789") != "" {
			if plain, last = join(plain, name), name; labelOf(plain, last) == "" {
				return path
			}
			parts = append(parts, labelOf(plain, last))
			continue
		}
		if n, err := strconv.Atoi(name); err == nil && len(parts) > 0 {
			parts[len(parts)-1] = fmt.Sprintf("%s %d", cmp.Or(entryLabels[last], labelOf(plain, last)), n+1)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), path)
}
