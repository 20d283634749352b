package docs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
)

// The reference of the API, rendered from its description.
const (
	referencePath        = "/docs/reference"
	referenceTitle       = "API reference"
	referenceDescription = "Every operation, parameter, response and schema of the API, with a request in curl, Go, TypeScript and Python."
)

// referenceFunctions are the functions of reference.md.
var referenceFunctions = template.FuncMap{
	"type":   typeOf,
	"values": valuesOf,
	"cell": func(text string) string {
		return strings.NewReplacer("\n", " ", "|", `\|`).Replace(strings.TrimSpace(text))
	},
	"explorer": func(o apidoc.Operation) string {
		return api.ExplorerPath + "/" + o.ID + "?" + o.ExampleCall().Link()
	},
}

// reference adds the page for a description. It keeps the order of the description.
func (r rendering) reference(source, cache string) error {
	doc, err := apidoc.Parse([]byte(source))
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := r.sources.ExecuteTemplate(&text, "reference.md", doc); err != nil {
		return err
	}
	return r.markdownPage(page{Path: referencePath, Title: referenceTitle, Description: referenceDescription, cache: cache}, text.String())
}

// valuesOf describes the allowed values of a schema and its default; empty if it has neither.
func valuesOf(s apidoc.Schema) string {
	var all []string
	if choices := s.Choices(); len(choices) > 0 {
		all = append(all, strings.Join(choices, ", "))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		all = append(all, fmt.Sprintf("%d to %d", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		all = append(all, fmt.Sprintf("%d or more", *s.Minimum))
	case s.MaxLength != nil:
		all = append(all, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	if s.Default != nil {
		all = append(all, fmt.Sprintf("default %v", s.Default))
	}
	return strings.Join(all, "; ")
}

// typeOf describes a schema in words, with links to named schemas.
func typeOf(s apidoc.Schema) string {
	switch {
	case s.Name() != "":
		return "[" + s.Name() + "](#" + s.Name() + ")"
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
