package listingform

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"opportunity.internal/pkg/api"
)

// reader reads the input of a form.
type reader struct {
	input    url.Values
	problems []Problem
}

// value returns the value of the field at path: that of base if the input still stands for it. to
// is the path of the field in the result, in which entries that are left out do not count.
func (r *reader) value(n node, path, to string, base any) any {
	switch n.kind {
	case object:
		return r.object(n, path, to, base)
	case list:
		return r.list(n, path, to, base)
	}
	given := normal(r.input.Get(path))
	if !r.input.Has(path) || given == normal(n.format(base)) {
		if base == nil {
			return n.empty()
		}
		return base
	}
	return r.parse(n, to, strings.TrimSpace(given))
}

// normal returns a text with line feeds only: browsers send others.
func normal(text string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}

// empty returns the value of a field without input.
func (n node) empty() any {
	switch n.kind {
	case text, choice:
		return ""
	case lines, list:
		return []any{}
	}
	return nil
}

func (r *reader) parse(n node, to, given string) any {
	switch {
	case n.kind == lines:
		items := []any{}
		for line := range strings.Lines(given) {
			if line = strings.TrimSpace(line); line != "" {
				items = append(items, line)
			}
		}
		return items
	case given == "":
		return n.empty()
	case n.kind == number:
		v, err := api.ParseNumber(given)
		if err != nil {
			r.problems = append(r.problems, Problem{to, LabelOf(to) + ": " + err.Error()})
			return given
		}
		return v
	}
	return given
}

func (r *reader) object(n node, path, to string, base any) any {
	old, _ := base.(map[string]any)
	tree, blank := map[string]any{}, true
	for _, c := range n.children {
		value := r.value(c, join(path, c.name), join(to, c.name), old[c.name])
		blank = blank && isBlank(value)
		if value != nil || c.kind != number {
			tree[c.name] = value
		}
	}
	switch {
	case !n.optional || !blank:
		return tree
	case n.name == "curation" && old != nil: // without notes, an edit keeps those that are stored
		return tree
	case reflect.DeepEqual(tree, old):
		return base
	}
	return nil
}

func (r *reader) list(n node, path, to string, base any) any {
	old, _ := base.([]any)
	entries := []any{}
	for i := 0; i < len(old) || r.has(n, fmt.Sprintf("%s.%d", path, i)); i++ {
		var was any
		if i < len(old) {
			was = old[i]
		}
		entry := r.object(n, fmt.Sprintf("%s.%d", path, i), fmt.Sprintf("%s.%d", to, len(entries)), was)
		if !isBlank(entry) {
			entries = append(entries, entry)
		}
	}
	return entries
}

func (r *reader) has(n node, path string) bool {
	for _, c := range n.children {
		if c.kind != object && c.kind != list && r.input.Has(join(path, c.name)) {
			return true
		}
	}
	return false
}

func isBlank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, member := range v {
			if !isBlank(member) {
				return false
			}
		}
		return true
	}
	return false
}
