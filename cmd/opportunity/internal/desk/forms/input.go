package forms

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func entryPath(list string, i int) string { return list + "." + strconv.Itoa(i) }

// fill writes the members of an object into the inputs of the fields.
func fill(fields []Field, path string, object map[string]any, into url.Values) {
	for _, f := range fields {
		at, value := join(path, f.Name), object[f.Name]
		switch f.Kind {
		case Group, Optional:
			members, _ := value.(map[string]any)
			fill(f.Fields, at, members, into)
		case List:
			entries, _ := value.([]any)
			for i, entry := range entries {
				members, _ := entry.(map[string]any)
				fill(f.Fields, entryPath(at, i), members, into)
			}
		default:
			into[at] = f.format(value)
		}
	}
}

// format returns the values of the input that stand for a value.
func (f Field) format(value any) []string {
	switch v := value.(type) {
	case []any:
		texts := make([]string, len(v))
		for i, item := range v {
			texts[i] = fmt.Sprint(item)
		}
		if f.Kind == Lines {
			return []string{strings.Join(texts, "\n")}
		}
		return texts
	case json.Number:
		return []string{api.FormatNumber(v)}
	case bool, string:
		return []string{fmt.Sprint(v)}
	}
	return []string{""}
}

// show returns the fields with the values of their inputs. A list has a blank entry at the end.
func show(fields []Field, path string, input url.Values) []Field {
	shown := slices.Clone(fields)
	for i := range shown {
		f := &shown[i]
		f.Path = join(path, f.Name)
		switch f.Kind {
		case Group, Optional:
			f.Fields = show(f.Fields, f.Path, input)
		case List:
			var entries []Field
			filled := f.entries(input)
			for n := range filled + 1 {
				at := entryPath(f.Path, n)
				entries = append(entries, Field{Path: at, Label: fmt.Sprintf("%s %d", f.Entry, n+1), Kind: Group,
					Fields: show(f.Fields, at, input), Blank: n == filled})
			}
			f.Fields = entries
		default:
			if f.Values = input[f.Path]; f.Kind == Text && strings.ContainsAny(f.Value(), "\r\n") {
				f.Kind = Long
			}
		}
	}
	return shown
}

// entries returns the number of entries of a list in the input without blank ones at the end.
func (f Field) entries(input url.Values) (n int) {
	r := reader{input: input}
	for i := 0; r.has(f, entryPath(f.Path, i)); i++ {
		if at := entryPath(f.Path, i); !f.blank(r.object(f, at, at, nil)) {
			n = i + 1
		}
	}
	return n
}

// blank reports whether a value is the same as no input.
func (f Field) blank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || len(f.Options) > 0 && v == f.Options[0].Value
	case []any:
		return len(v) == 0
	case map[string]any:
		return !slices.ContainsFunc(f.Fields, func(c Field) bool { return !c.blank(v[c.Name]) })
	}
	return false
}

// reader reads the input of a form as JSON values.
type reader struct {
	input    url.Values
	problems []pages.FormError
}

// value returns the value of the field at path: that of base if the input still stands for it. to
// is the path of the field in the result, in which entries that are left out do not count.
func (r *reader) value(f Field, path, to string, base any) any {
	switch f.Kind {
	case Group, Optional:
		return r.object(f, path, to, base)
	case List:
		return r.list(f, path, to, base)
	}
	given := normal(r.input[path])
	if f.Kind != Amount && (!r.input.Has(path) || given == normal(f.format(base))) {
		if base == nil {
			return f.empty()
		}
		return base
	}
	return r.parse(f, to, strings.TrimSpace(given))
}

// normal returns the values of an input as one text with line feeds only: browsers send others.
func normal(values []string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.Join(values, "\n"))
}

func (f Field) empty() any {
	switch f.Kind {
	case Nullable, YesNo, Number, Amount:
		return nil
	case Lines, Regions, Sources:
		return []any{}
	}
	return ""
}

func (r *reader) parse(f Field, to, given string) any {
	switch {
	case f.Kind == Lines, f.Kind == Regions, f.Kind == Sources:
		items := []any{}
		for _, line := range lines(given) {
			items = append(items, line)
		}
		return items
	case f.Kind == Number && given != "", f.Kind == Amount:
		v, err := api.ParseNumber(given)
		if err != nil {
			label := LabelOf(to)
			if label == to {
				label = FactLabel(to)
			}
			r.problems = append(r.problems, pages.FormError{Field: to, Message: label + ": " + err.Error()})
			return given
		}
		return v
	case given == "":
		return f.empty()
	case f.Kind == YesNo:
		return given == "true"
	}
	return given
}

// lines returns the lines of a text that are not blank.
func lines(text string) (found []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			found = append(found, line)
		}
	}
	return found
}

func (r *reader) object(f Field, path, to string, base any) any {
	old, _ := base.(map[string]any)
	object := map[string]any{}
	for _, c := range f.Fields {
		value := r.value(c, join(path, c.Name), join(to, c.Name), old[c.Name])
		if value != nil || c.Kind != Number {
			object[c.Name] = value
		}
	}
	switch {
	case f.Kind != Optional || !f.blank(object):
		return object
	case f.Name == "curation" && old != nil: // without notes, an edit keeps those that are stored
		return object
	case reflect.DeepEqual(object, old):
		return base
	}
	return nil
}

func (r *reader) list(f Field, path, to string, base any) any {
	old, _ := base.([]any)
	entries := []any{}
	for i := 0; i < len(old) || r.has(f, entryPath(path, i)); i++ {
		var was any
		if i < len(old) {
			was = old[i]
		}
		entry := r.object(f, entryPath(path, i), entryPath(to, len(entries)), was)
		if !f.blank(entry) {
			entries = append(entries, entry)
		}
	}
	return entries
}

func (r *reader) has(f Field, path string) bool {
	return slices.ContainsFunc(f.Fields, func(c Field) bool { return r.input.Has(join(path, c.Name)) })
}
