package docs

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
)

// The reference of the API, rendered from its description.
const (
	referencePath        = "/docs/reference"
	referenceTitle       = "API reference"
	referenceDescription = "Every operation, parameter, response and schema of the API, with a call in curl, Go, TypeScript and Python."
)

// operation is a section of the reference.
type operation struct {
	apidoc.Operation

	Description template.HTML
	Parameters  []row
	Responses   []row
	Programs    []apidoc.Program // of the example
	Explorer    string           // path of the explorer's form with the values of the example
}

// row is a parameter, a response, or a field of a schema.
type row struct {
	Name        string
	Type        template.HTML
	Description template.HTML
}

// object is a schema in the reference.
type object struct {
	Name        string
	Type        template.HTML
	Description template.HTML
	Values      []string
	Fields      []row
}

// reference adds the page for a description. It keeps the order of the description.
func (r rendering) reference(source, cache string) error {
	doc, err := apidoc.Parse([]byte(source))
	if err != nil {
		return err
	}
	operations := make([]operation, len(doc.Operations))
	for i, o := range doc.Operations {
		if operations[i], err = r.operation(o); err != nil {
			return fmt.Errorf("operation %s: %w", o.ID, err)
		}
	}
	objects := make([]object, len(doc.Schemas))
	for i, s := range doc.Schemas {
		objects[i] = r.object(s.Name, s.Value)
	}
	return r.templatePage(page{Path: referencePath, Title: referenceTitle, Description: referenceDescription, cache: cache},
		"reference.html", map[string]any{"Operations": operations, "Objects": objects})
}

func (r rendering) operation(from apidoc.Operation) (operation, error) {
	call := from.ExampleCall()
	o := operation{Operation: from, Description: r.prose(from.Description), Explorer: api.ExplorerPath + "/" + from.ID + "?" + call.Link()}
	for _, p := range from.Parameters {
		place := template.HTML(" in " + template.HTMLEscapeString(p.In)) //nolint:gosec // escaped
		o.Parameters = append(o.Parameters, row{p.Name, typeOf(p.Schema) + place, r.prose(p.Description)})
	}
	for _, status := range from.Responses {
		o.Responses = append(o.Responses, row{status.Name, typeOf(status.Value.JSON()), r.prose(status.Value.Description)})
	}
	var err error
	o.Programs, err = call.Programs()
	return o, err
}

func (r rendering) object(name string, s apidoc.Schema) object {
	o := object{Name: name, Type: typeOf(s), Description: r.prose(s.Description), Values: s.Enum}
	for _, p := range s.Properties {
		o.Fields = append(o.Fields, row{p.Name, typeOf(p.Value), r.prose(p.Value.Description)})
	}
	return o
}

// prose renders a description.
func (r rendering) prose(markdown string) template.HTML {
	var out bytes.Buffer
	if err := r.markdown.Convert([]byte(markdown), &out); err != nil {
		return template.HTML(template.HTMLEscapeString(markdown)) //nolint:gosec // escaped
	}
	return template.HTML(out.String()) //nolint:gosec // our own text
}

// typeOf describes a schema in words, with links to named schemas.
func typeOf(s apidoc.Schema) template.HTML {
	name := template.HTMLEscapeString(s.Name())
	switch {
	case name != "":
		return template.HTML(`<a href="#` + name + `">` + name + `</a>`) //nolint:gosec // escaped
	case len(s.OneOf) > 0:
		var all []string
		for _, one := range s.OneOf {
			all = append(all, string(typeOf(one)))
		}
		return template.HTML(strings.Join(all, " or ")) //nolint:gosec // escaped above
	case s.Items != nil:
		return "array of " + typeOf(*s.Items)
	}
	words := slices.Clone(s.Types)
	if s.Format != "" {
		words[0] += " (" + s.Format + ")"
	}
	return template.HTML(template.HTMLEscapeString(strings.Join(words, " or "))) //nolint:gosec // escaped
}
