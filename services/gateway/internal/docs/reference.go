package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"opportunity.internal/sdk"
)

// The reference of the API, rendered from its description.
const (
	referencePath  = "/docs/reference"
	referenceTitle = "API reference"
)

// operation is a section of the reference.
type operation struct {
	ID, Path, Summary string
	Description       template.HTML
	Parameters        []row
	Responses         []row
	Request, Response string // the first example of a 200
	Programs          []program
}

// row is a parameter, a response, or a field of a schema.
type row struct {
	Name        string
	Type        template.HTML
	Description template.HTML
}

// program is a call in one language.
type program struct{ Title, Language, Code string }

// object is a schema in the reference.
type object struct {
	Name        string
	Type        template.HTML
	Description template.HTML
	Values      []string
	Fields      []row
}

// samples are the programs of each operation, below sdk/samples/reference.
var samples = map[string]string{
	"listOpportunities": "list", "listJobsAlias": "list", "getOpportunity": "get", "getVerificationHistory": "history",
}

// The parts of an OpenAPI description that the reference shows.
type (
	openAPI struct {
		Paths      yaml.Node `yaml:"paths"`
		Components struct {
			Schemas    yaml.Node            `yaml:"schemas"`
			Parameters map[string]parameter `yaml:"parameters"`
			Responses  map[string]response  `yaml:"responses"`
		} `yaml:"components"`
	}
	pathItem struct {
		Get struct {
			OperationID string      `yaml:"operationId"`
			Summary     string      `yaml:"summary"`
			Description string      `yaml:"description"`
			Parameters  []reference `yaml:"parameters"`
			Responses   yaml.Node   `yaml:"responses"`
		} `yaml:"get"`
	}
	reference struct {
		Ref string `yaml:"$ref"`
	}
	parameter struct {
		Name        string `yaml:"name"`
		In          string `yaml:"in"`
		Description string `yaml:"description"`
		Schema      schema `yaml:"schema"`
	}
	response struct {
		Description string `yaml:"description"`
		Content     map[string]struct {
			Schema   schema    `yaml:"schema"`
			Examples yaml.Node `yaml:"examples"`
		} `yaml:"content"`
	}
	schema struct {
		Ref         string    `yaml:"$ref"`
		Type        yaml.Node `yaml:"type"`
		Format      string    `yaml:"format"`
		Description string    `yaml:"description"`
		Enum        []string  `yaml:"enum"`
		OneOf       []schema  `yaml:"oneOf"`
		Items       *schema   `yaml:"items"`
		Properties  yaml.Node `yaml:"properties"`
	}
)

// reference adds the page for a description. It keeps the order of the description.
func (r rendering) reference(source, cache string) error {
	var doc openAPI
	if err := yaml.Unmarshal([]byte(source), &doc); err != nil {
		return err
	}
	var operations []operation
	err := each(&doc.Paths, func(path string, item pathItem) error {
		o, err := r.operation(doc, path, item)
		operations = append(operations, o)
		return err
	})
	if err != nil {
		return err
	}
	var objects []object
	err = each(&doc.Components.Schemas, func(name string, s schema) error {
		o, err := r.object(name, s)
		objects = append(objects, o)
		return err
	})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := r.layout.ExecuteTemplate(&body, "reference.html", map[string]any{"Operations": operations, "Objects": objects}); err != nil {
		return err
	}
	return r.page(referencePath, referenceTitle, template.HTML(body.String()), cache) //nolint:gosec // a template's output
}

func (r rendering) operation(doc openAPI, path string, item pathItem) (operation, error) {
	get := item.Get
	o := operation{ID: get.OperationID, Path: path, Summary: get.Summary, Description: r.prose(get.Description)}
	for _, ref := range get.Parameters {
		p := doc.Components.Parameters[base(ref.Ref)]
		place := template.HTML(" in " + template.HTMLEscapeString(p.In)) //nolint:gosec // escaped
		o.Parameters = append(o.Parameters, row{p.Name, typeOf(p.Schema) + place, r.prose(p.Description)})
	}
	err := each(&get.Responses, func(status string, ref reference) error {
		answer := doc.Components.Responses[base(ref.Ref)]
		content := answer.Content["application/json"]
		o.Responses = append(o.Responses, row{status, typeOf(content.Schema), r.prose(answer.Description)})
		if status != "200" || len(content.Examples.Content) < 2 {
			return nil
		}
		var example struct {
			Summary string    `yaml:"summary"`
			Value   yaml.Node `yaml:"value"`
		}
		if err := content.Examples.Content[1].Decode(&example); err != nil {
			return err
		}
		var text bytes.Buffer
		if err := writeJSON(&text, &example.Value); err != nil {
			return err
		}
		var indented bytes.Buffer
		err := json.Indent(&indented, text.Bytes(), "", "  ")
		o.Request, o.Response = example.Summary, indented.String()
		return err
	})
	if err != nil {
		return operation{}, fmt.Errorf("operation %s: %w", o.ID, err)
	}
	for _, language := range []program{{"curl", "sh", "sh"}, {"Go", "go", "go"}, {"TypeScript and JavaScript", "js", "mjs"}, {"Python", "python", "py"}} {
		code, err := sdk.Samples.ReadFile("samples/reference/" + samples[o.ID] + "/main." + language.Code)
		if err != nil {
			return operation{}, fmt.Errorf("operation %s: %w", o.ID, err)
		}
		o.Programs = append(o.Programs, program{language.Title, language.Language, string(code)})
	}
	return o, nil
}

func (r rendering) object(name string, s schema) (object, error) {
	o := object{Name: name, Type: typeOf(s), Description: r.prose(s.Description), Values: s.Enum}
	err := each(&s.Properties, func(name string, p schema) error {
		o.Fields = append(o.Fields, row{name, typeOf(p), r.prose(p.Description)})
		return nil
	})
	return o, err
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
func typeOf(s schema) template.HTML {
	name := template.HTMLEscapeString(base(s.Ref))
	switch {
	case s.Ref != "":
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
	words := []string{s.Type.Value}
	if s.Type.Kind == yaml.SequenceNode {
		words = nil
		for _, kind := range s.Type.Content {
			words = append(words, kind.Value)
		}
	}
	if s.Format != "" {
		words[0] += " (" + s.Format + ")"
	}
	return template.HTML(template.HTMLEscapeString(strings.Join(words, " or "))) //nolint:gosec // escaped
}

// base returns the last segment of a reference.
func base(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// each calls f with each entry of a mapping, in the order of the document.
func each[T any](mapping *yaml.Node, f func(name string, value T) error) error {
	for pair := range slices.Chunk(mapping.Content, 2) {
		var value T
		if err := pair[1].Decode(&value); err != nil {
			return err
		}
		if err := f(pair[0].Value, value); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes a YAML value as JSON and keeps the order of fields.
func writeJSON(out *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		open, end := byte('['), byte(']')
		if n.Kind == yaml.MappingNode {
			open, end = '{', '}'
		}
		out.WriteByte(open)
		for i, child := range n.Content {
			switch {
			case n.Kind == yaml.MappingNode && i%2 == 1:
				out.WriteByte(':')
			case i > 0:
				out.WriteByte(',')
			}
			if err := writeJSON(out, child); err != nil {
				return err
			}
		}
		out.WriteByte(end)
		return nil
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return err
	}
	text, err := json.Marshal(value)
	out.Write(text)
	return err
}
