package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// description is the part of an OpenAPI description that becomes types.
type description struct {
	schemas []schema
	filters []filter
}

// schema is a named schema: an object with fields, an enum, or a string.
type schema struct {
	name   string
	doc    string
	object bool
	fields []field
	enum   []string
}

// field is a property of an object.
type field struct {
	name string
	doc  string
	of   value
}

// value is the type of a field. Exactly one of ref, items and kind is set.
type value struct {
	ref      string // name of a schema
	items    *value // of an array
	kind     string // string, boolean, integer or number
	format   string
	nullable bool
}

// filter is the set of query parameters of an operation.
type filter struct {
	name       string
	doc        string
	parameters []field
}

// Schemas whose types are written by hand: lists and records share a generic type, and errors have a type of their own.
// A slug is a plain string.
var handwritten = []string{"OpportunityList", "OpportunityDetail", "EventList", "ChangeList", "Error", "ErrorDetail", "Slug"}

// parameter is a parameter in the description, or a reference to one.
type parameter struct {
	Ref         string `yaml:"$ref"`
	Name        string `yaml:"name"`
	In          string `yaml:"in"`
	Description string `yaml:"description"`
	Schema      node   `yaml:"schema"`
}

// node is a schema in the description.
type node struct {
	Ref         string    `yaml:"$ref"`
	Type        yaml.Node `yaml:"type"`
	Format      string    `yaml:"format"`
	Description string    `yaml:"description"`
	Enum        []string  `yaml:"enum"`
	OneOf       []node    `yaml:"oneOf"`
	Items       *node     `yaml:"items"`
	Properties  yaml.Node `yaml:"properties"`
	Required    []string  `yaml:"required"`
}

// read returns the description in a file. It returns an error for a construct that the emitters do not support.
func read(file string) (description, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return description{}, err
	}
	var doc struct {
		Paths map[string]struct {
			Get struct {
				Parameters []parameter `yaml:"parameters"`
			} `yaml:"get"`
		} `yaml:"paths"`
		Components struct {
			Schemas    yaml.Node            `yaml:"schemas"`
			Parameters map[string]parameter `yaml:"parameters"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return description{}, err
	}
	var d description
	err = pairs(&doc.Components.Schemas, func(name string, n node) error {
		if slices.Contains(handwritten, name) {
			return nil
		}
		s, err := toSchema(name, n)
		d.schemas = append(d.schemas, s)
		return err
	})
	if err != nil {
		return description{}, err
	}
	for _, f := range []struct{ name, doc, path string }{
		{"Filter", "Filter selects opportunities. An omitted filter excludes nothing.", "/api/v1/opportunities"},
		{"SearchFilter", "SearchFilter selects opportunities in a search. An omitted filter excludes nothing.", "/api/v1/search"},
		{"HistoryFilter", "HistoryFilter selects events of a history.", "/api/v1/opportunities/{id}/history"},
		{"ChangeFilter", "ChangeFilter selects changes.", "/api/v1/changes"},
	} {
		out := filter{name: f.name, doc: f.doc}
		for _, p := range doc.Paths[f.path].Get.Parameters {
			p = doc.Components.Parameters[base(p.Ref)]
			if p.In != "query" {
				continue
			}
			of, err := toValue(p.Schema)
			if err != nil {
				return description{}, fmt.Errorf("parameter %s: %w", p.Name, err)
			}
			out.parameters = append(out.parameters, field{p.Name, p.Description, of})
		}
		d.filters = append(d.filters, out)
	}
	return d, nil
}

// pairs calls f for each entry of a YAML mapping, in the order of the document.
func pairs(mapping *yaml.Node, f func(name string, n node) error) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		name := mapping.Content[i].Value
		var n node
		if err := mapping.Content[i+1].Decode(&n); err != nil {
			return err
		}
		if err := f(name, n); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func toSchema(name string, n node) (schema, error) {
	s := schema{name: name, doc: n.Description, enum: n.Enum, object: n.Type.Value == "object"}
	if !s.object && n.Type.Value != "string" {
		return s, fmt.Errorf("unsupported type %q", n.Type.Value)
	}
	err := pairs(&n.Properties, func(name string, p node) error {
		if !slices.Contains(n.Required, name) {
			return fmt.Errorf("optional fields are not supported")
		}
		of, err := toValue(p)
		s.fields = append(s.fields, field{name, p.Description, of})
		return err
	})
	return s, err
}

func toValue(n node) (value, error) {
	switch {
	case base(n.Ref) == "Slug":
		return value{kind: "string"}, nil
	case n.Ref != "":
		return value{ref: base(n.Ref)}, nil
	case len(n.OneOf) == 2 && n.OneOf[1].Type.Value == "null":
		v, err := toValue(n.OneOf[0])
		v.nullable = true
		return v, err
	case n.Type.Value == "array":
		items, err := toValue(*n.Items)
		return value{items: &items}, err
	}
	v := value{kind: n.Type.Value, format: n.Format}
	if n.Type.Kind == yaml.SequenceNode && len(n.Type.Content) == 2 && n.Type.Content[1].Value == "null" {
		v.kind, v.nullable = n.Type.Content[0].Value, true
	}
	if !slices.Contains([]string{"string", "boolean", "integer", "number"}, v.kind) {
		return v, fmt.Errorf("unsupported type %q", v.kind)
	}
	return v, nil
}

// base returns the last segment of a reference.
func base(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// sentence returns the doc comment of a Go type: a description that starts with the name of the type.
func sentence(name, doc string) string {
	verb := " is "
	switch {
	case strings.HasPrefix(doc, "Whether "):
		verb = " states "
	case strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss") && !strings.HasSuffix(name, "Status"):
		verb = " are "
	}
	return name + verb + strings.ToLower(doc[:1]) + doc[1:]
}

// lines wraps text at width and joins the lines with prefix.
func lines(text, prefix string, width int) string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			out, line = append(out, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return prefix + strings.Join(append(out, line), "\n"+prefix)
}
