package main

import (
	"fmt"
	"slices"
	"strings"

	"opportunity.internal/pkg/apidoc"
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

// Schemas whose types are written by hand: lists and records share a generic type, and errors have
// a type of their own. A slug is a plain string.
var handwritten = []string{"OpportunityList", "OpportunityDetail", "EventList", "ChangeList", "Error", "ErrorDetail",
	"Slug"}

// read returns the schemas and filters of a description. It returns an error for a construct that
// the emitters do not support.
func read(source []byte) (d description, err error) {
	doc, err := apidoc.Parse(source)
	if err != nil {
		return d, err
	}
	for _, named := range doc.Schemas {
		if slices.Contains(handwritten, named.Name) {
			continue
		}
		s, err := toSchema(named.Name, named.Value)
		if err != nil {
			return d, fmt.Errorf("%s: %w", named.Name, err)
		}
		d.schemas = append(d.schemas, s)
	}
	for _, f := range []struct{ name, doc, operation string }{
		{"Filter", "Filter selects opportunities. An omitted filter excludes nothing.", "listOpportunities"},
		{"SearchFilter", "SearchFilter selects opportunities in a search. An omitted filter excludes nothing.",
			"searchOpportunities"},
		{"HistoryFilter", "HistoryFilter selects events of a history.", "getVerificationHistory"},
		{"ChangeFilter", "ChangeFilter selects changes.", "listChanges"},
	} {
		out := filter{name: f.name, doc: f.doc}
		operation, _ := doc.Operation(f.operation)
		for _, p := range operation.Parameters {
			if p.In != "query" {
				continue
			}
			of, err := toValue(p.Schema)
			if err != nil {
				return d, fmt.Errorf("parameter %s: %w", p.Name, err)
			}
			out.parameters = append(out.parameters, field{p.Name, p.Description, of})
		}
		d.filters = append(d.filters, out)
	}
	return d, nil
}

func toSchema(name string, n apidoc.Schema) (schema, error) {
	s := schema{name: name, doc: n.Description, enum: n.Enum, object: n.Is("object")}
	if !s.object && !n.Is("string") {
		return s, fmt.Errorf("unsupported type %q", n.Types)
	}
	for _, p := range n.Properties {
		if !slices.Contains(n.Required, p.Name) {
			return s, fmt.Errorf("%s: optional fields are not supported", p.Name)
		}
		of, err := toValue(p.Value)
		if err != nil {
			return s, fmt.Errorf("%s: %w", p.Name, err)
		}
		s.fields = append(s.fields, field{p.Name, p.Value.Description, of})
	}
	return s, nil
}

func toValue(n apidoc.Schema) (value, error) {
	switch {
	case n.Name() == "Slug":
		return value{kind: "string"}, nil
	case n.Ref != "":
		return value{ref: n.Name()}, nil
	case len(n.OneOf) == 2 && n.OneOf[1].Is("null"):
		v, err := toValue(n.OneOf[0])
		v.nullable = true
		return v, err
	case n.Is("array"):
		items, err := toValue(*n.Items)
		return value{items: &items}, err
	}
	v := value{format: n.Format, nullable: len(n.Types) == 2 && n.Types[1] == "null"}
	if v.nullable || len(n.Types) == 1 {
		v.kind = n.Types[0]
	}
	if !slices.Contains([]string{"string", "boolean", "integer", "number"}, v.kind) {
		return v, fmt.Errorf("unsupported type %q", n.Types)
	}
	return v, nil
}

// sentence returns the doc comment of a Go type: a description that starts with the name of the
// type.
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
