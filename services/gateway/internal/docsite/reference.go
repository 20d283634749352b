package docsite

import (
	"fmt"
	"slices"
	"strings"
	"text/template"

	"opportunity.internal/docs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
)

// referenceEntry is the first page of the reference, which is rendered from the description of the
// API.
var referenceEntry = entry{docs.Operations, "/docs/reference", "API reference", "Every operation of the API, each " +
	"with its parameters, responses, and a request in curl, Go, TypeScript and Python."}

// aliasID is the operation that differs from another only in its path.
const aliasID = "listJobsAlias"

func referenceAt(id string) string { return referenceEntry.Path + "/" + id }

var referenceFunctions = template.FuncMap{
	"type":      typeOf,
	"values":    valuesOf,
	"reference": referenceAt,
	"alias":     func(o apidoc.Operation) bool { return o.ID == aliasID },
	"cell": func(text string) string {
		return strings.NewReplacer("\n", " ", "|", `\|`).Replace(strings.TrimSpace(text))
	},
	"meaning": func(s apidoc.Schema) string {
		doc, _ := apidoc.Published() // New has read it
		return doc.Meaning(s)
	},
	"explorer": func(o apidoc.Operation) string {
		return api.ExplorerPath + "/" + o.ID + "?" + o.ExampleCall().Link()
	},
}

func referencePages(doc *apidoc.Description) []entry {
	all := []entry{referenceEntry}
	for _, o := range doc.Operations {
		all = append(all, entry{docs.Operations, referenceAt(o.ID), o.Summary,
			"GET " + o.Path + ": parameters, responses, and a request in each language."})
	}
	return append(all, entry{docs.Operations, referenceAt("schemas"), "Schemas",
		"Every type and field of the API's responses, with its meaning and values."})
}

func (r rendering) reference(source, cache string) error {
	doc, err := apidoc.Parse([]byte(source))
	if err != nil {
		return err
	}
	data := []any{doc}
	for _, o := range doc.Operations {
		data = append(data, o)
	}
	data = append(data, groupsOf(doc.Schemas))
	for i, e := range referencePages(doc) {
		name := "operation.md"
		switch i {
		case 0:
			name = "reference.md"
		case len(data) - 1:
			name = "schemas.md"
		}
		p := page{entry: e, Sides: name == "operation.md", cache: cache}
		if err := r.tablePage(p, name, data[i]); err != nil {
			return err
		}
	}
	return nil
}

// schemaGroup is a part of the page of the schemas.
type schemaGroup struct {
	Title   string
	Schemas apidoc.Map[apidoc.Schema]
}

func groupsOf(schemas apidoc.Map[apidoc.Schema]) []schemaGroup {
	groups := []schemaGroup{{Title: "The record and its parts"}, {Title: "Values"}, {Title: "Bodies of responses"}}
	for _, s := range schemas {
		at := 0
		switch p := s.Value.Properties; {
		case len(p) == 0:
			at = 1
		case p[0].Name == "data" || p[0].Name == "error":
			at = 2
		}
		groups[at].Schemas = append(groups[at].Schemas, s)
	}
	return groups
}

// valuesOf describes the allowed values of a schema and its default; empty if it has neither.
func valuesOf(s apidoc.Schema) string {
	var all []string
	for _, choice := range s.Choices() {
		all = append(all, "`"+choice+"`")
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		all = append(all, fmt.Sprintf("`%d` to `%d`", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		all = append(all, fmt.Sprintf("`%d` or more", *s.Minimum))
	case s.MaxLength != nil:
		all = append(all, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	if s.Default != nil {
		all = append(all, fmt.Sprintf("default `%v`", s.Default))
	}
	return strings.Join(all, ", ")
}

func typeOf(s apidoc.Schema) string {
	switch {
	case s.Name() != "":
		return "[" + s.Name() + "](" + referenceAt("schemas") + "#" + s.Name() + ")"
	case len(s.OneOf) > 0:
		var all []string
		for _, one := range s.OneOf {
			all = append(all, typeOf(one))
		}
		return strings.Join(all, " or ")
	case s.Items != nil:
		return "array of " + typeOf(*s.Items)
	}
	words := slices.Clone(s.Types)
	if s.Format != "" {
		words[0] += " (" + s.Format + ")"
	}
	return strings.Join(words, " or ")
}
