package main

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pairOf is a named value of a collection: a variable, or a parameter of a request.
type pairOf struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
	Disabled    bool   `json:"disabled,omitempty"`
}

// emitCollection returns a collection of the operations in an OpenAPI file in the format 2.1 of Postman, which Bruno, Insomnia and others
// import. Its variables are the address of the service and the key. Optional parameters are listed and off.
func emitCollection(source string) (string, error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	var doc struct {
		Info struct{ Title, Summary string }
		// Paths is a node, because the order of the operations is that of the description.
		Paths      yaml.Node
		Components struct {
			Parameters map[string]collectionParameter
			Schemas    map[string]struct{ Enum []string }
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return "", err
	}
	var items []any
	for i := 0; i < len(doc.Paths.Content); i += 2 {
		var operation struct {
			Get struct {
				Summary     string
				Description string
				Parameters  []struct {
					Ref string `yaml:"$ref"`
				}
			}
		}
		if err := doc.Paths.Content[i+1].Decode(&operation); err != nil {
			return "", err
		}
		path := strings.NewReplacer("{", ":", "}", "").Replace(doc.Paths.Content[i].Value)
		query, variables := []pairOf{}, []pairOf{}
		for _, ref := range operation.Get.Parameters {
			p := doc.Components.Parameters[base(ref.Ref)]
			value := cmp.Or(p.Example, p.Examples.Date.Value, p.Schema.Default)
			if enum := doc.Components.Schemas[base(p.Schema.Ref)].Enum; len(enum) > 0 {
				value = enum[0]
			}
			if p.Schema.Type == "boolean" {
				value = "true"
			}
			pair := pairOf{Key: p.Name, Value: value, Description: strings.TrimSpace(p.Description)}
			switch p.In {
			case "path":
				variables = append(variables, pair)
			case "query":
				pair.Disabled = true
				query = append(query, pair)
			}
		}
		items = append(items, map[string]any{
			"name": operation.Get.Summary,
			"request": map[string]any{
				"method": "GET", "header": []any{}, "description": strings.TrimSpace(operation.Get.Description),
				"url": map[string]any{
					"raw": "{{url}}" + path, "host": []string{"{{url}}"}, "path": strings.Split(path, "/")[1:],
					"query": query, "variable": variables,
				},
			},
		})
	}
	out, err := json.MarshalIndent(map[string]any{
		"info": map[string]any{
			"name": doc.Info.Title, "description": doc.Info.Summary + " Set the variable `key` to your API key, and never share it with the collection.",
			"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
		},
		"auth":     map[string]any{"type": "bearer", "bearer": []pairOf{{Key: "token", Value: "{{key}}", Type: "string"}}},
		"variable": []pairOf{{Key: "url", Value: address, Type: "string"}, {Key: "key", Type: "secret"}},
		"item":     items,
	}, "", "  ")
	return string(out) + "\n", err
}

// address is the address of the service in the OpenAPI file. The gateway replaces it with its own.
const address = "http://localhost:8080"

type collectionParameter struct {
	Name, In, Description, Example string
	Examples                       struct{ Date struct{ Value string } }
	Schema                         struct {
		Ref           string `yaml:"$ref"`
		Type, Default string
	}
}
