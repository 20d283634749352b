// Package apidoc reads the OpenAPI description of the API: its operations with their parameters and
// examples, and its schemas. It also writes a call of an operation as a program.
//
// Parse returns a Description; Published is that of this release. The pages of the documentation,
// the explorer and the generators of the SDKs use its Operations and Schemas, in the order of the
// description. A Call has the values for one Operation; Programs writes it for each language.
package apidoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"opportunity.internal/pkg/api"
)

// Description holds the operations and the named schemas, in the order of the document.
type Description struct {
	Operations []Operation
	Schemas    Map[Schema]
}

// Operation is a GET operation.
type Operation struct {
	ID, Path, Summary, Description string
	Parameters                     []Parameter
	Responses                      Map[Response] // by status
	Example                        Example       // the first of a 200
}

// Parameter is a parameter of an operation.
type Parameter struct {
	Name        string `yaml:"name"`
	In          string `yaml:"in"` // path, query or header
	Required    bool   `yaml:"required"`
	Description string `yaml:"description"`
	Schema      Schema `yaml:"schema"`

	Resolved Schema `yaml:"-"` // Schema, or the named schema to which it refers
}

// Response is a response of an operation.
type Response struct {
	Description string `yaml:"description"`
	Content     map[string]struct {
		Schema   Schema           `yaml:"schema"`
		Examples Map[exampleNode] `yaml:"examples"`
	} `yaml:"content"`
}

// JSON returns the schema of the body. It is empty if there is no body.
func (r Response) JSON() Schema { return r.Content["application/json"].Schema }

// Example is a real request, such as GET /api/jobs?page=2, with the body of its response.
type Example struct{ Request, Response string }

type exampleNode struct {
	Summary string    `yaml:"summary"`
	Value   yaml.Node `yaml:"value"`
}

// Schema is the type of a value.
type Schema struct {
	Ref         string      `yaml:"$ref"`
	Types       types       `yaml:"type"`
	Format      string      `yaml:"format"`
	Description string      `yaml:"description"`
	Enum        []string    `yaml:"enum"`
	OneOf       []Schema    `yaml:"oneOf"`
	Items       *Schema     `yaml:"items"`
	Properties  Map[Schema] `yaml:"properties"`
	Required    []string    `yaml:"required"`
	Minimum     *int        `yaml:"minimum"`
	Maximum     *int        `yaml:"maximum"`
	MaxLength   *int        `yaml:"maxLength"`
	Default     any         `yaml:"default"`
}

// Name returns the name of the schema to which s refers, or an empty string.
func (s Schema) Name() string { return base(s.Ref) }

// Is reports whether s has only the type named kind.
func (s Schema) Is(kind string) bool { return len(s.Types) == 1 && s.Types[0] == kind }

// Choices returns the values of s if it has only a few, otherwise nil.
func (s Schema) Choices() []string {
	if s.Is("boolean") {
		return []string{"true", "false"}
	}
	return s.Enum
}

// types is one type, or a list of alternatives.
type types []string

func (t *types) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = types{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

// Map is a mapping in the order of the document.
type Map[T any] []Entry[T]

// Entry is an entry of a Map.
type Entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalYAML decodes a mapping.
func (m *Map[T]) UnmarshalYAML(n *yaml.Node) error {
	for pair := range slices.Chunk(n.Content, 2) {
		e := Entry[T]{Name: pair[0].Value}
		if err := pair[1].Decode(&e.Value); err != nil {
			return err
		}
		*m = append(*m, e)
	}
	return nil
}

type reference struct {
	Ref string `yaml:"$ref"`
}

// Published returns the description of the API with the default limits. The caller must not change
// it.
var Published = sync.OnceValues(func() (*Description, error) { return Parse(api.OpenAPIYAML) })

// Parse reads an OpenAPI document in which parameters and responses are references to components.
func Parse(source []byte) (*Description, error) {
	var doc struct {
		Paths Map[struct {
			Get struct {
				ID          string         `yaml:"operationId"`
				Summary     string         `yaml:"summary"`
				Description string         `yaml:"description"`
				Parameters  []reference    `yaml:"parameters"`
				Responses   Map[reference] `yaml:"responses"`
			} `yaml:"get"`
		}] `yaml:"paths"`
		Components struct {
			Schemas    Map[Schema]          `yaml:"schemas"`
			Parameters map[string]Parameter `yaml:"parameters"`
			Responses  map[string]Response  `yaml:"responses"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, err
	}
	d := &Description{Schemas: doc.Components.Schemas}
	for _, path := range doc.Paths {
		get := path.Value.Get
		o := Operation{ID: get.ID, Path: path.Name, Summary: get.Summary, Description: get.Description}
		for _, ref := range get.Parameters {
			p, ok := doc.Components.Parameters[base(ref.Ref)]
			if !ok {
				return nil, fmt.Errorf("operation %s: unknown parameter %q", o.ID, ref.Ref)
			}
			p.Resolved = d.resolve(p.Schema)
			o.Parameters = append(o.Parameters, p)
		}
		for _, ref := range get.Responses {
			r, ok := doc.Components.Responses[base(ref.Value.Ref)]
			if !ok {
				return nil, fmt.Errorf("operation %s: unknown response %q", o.ID, ref.Value.Ref)
			}
			o.Responses = append(o.Responses, Entry[Response]{ref.Name, r})
		}
		var err error
		if o.Example, err = o.example(); err != nil {
			return nil, fmt.Errorf("operation %s: %w", o.ID, err)
		}
		d.Operations = append(d.Operations, o)
	}
	return d, nil
}

// Operation returns the operation with an ID, and false if there is none.
func (d *Description) Operation(id string) (Operation, bool) {
	i := slices.IndexFunc(d.Operations, func(o Operation) bool { return o.ID == id })
	if i < 0 {
		return Operation{}, false
	}
	return d.Operations[i], true
}

func (d *Description) resolve(s Schema) Schema {
	for _, named := range d.Schemas {
		if s.Ref != "" && named.Name == s.Name() {
			return named.Value
		}
	}
	return s
}

// Meaning returns the description of s, or otherwise that of the named schema to which it or its
// elements refer.
func (d *Description) Meaning(s Schema) string {
	for s.Description == "" && s.Items != nil {
		s = *s.Items
	}
	for _, one := range append([]Schema{s}, s.OneOf...) {
		if text := d.resolve(one).Description; text != "" {
			return text
		}
	}
	return s.Description
}

func (o Operation) example() (Example, error) {
	for _, r := range o.Responses {
		examples := r.Value.Content["application/json"].Examples
		if r.Name != "200" || len(examples) == 0 {
			continue
		}
		var body, indented bytes.Buffer
		if err := writeJSON(&body, &examples[0].Value.Value); err != nil {
			return Example{}, err
		}
		err := json.Indent(&indented, body.Bytes(), "", "  ")
		return Example{examples[0].Value.Summary, indented.String()}, err
	}
	return Example{}, nil
}

func base(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

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
	text := json.NewEncoder(out)
	text.SetEscapeHTML(false)
	return text.Encode(value) // ends the line, which json.Indent removes
}
