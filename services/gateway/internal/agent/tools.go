package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"opportunity.internal/pkg/apidoc"
)

// Bounds of one result.
const (
	defaultLimit  = 5
	maxLimit      = 10
	maxCharacters = 20_000
)

type tool struct {
	name, title, description string
	operation                string // id in the OpenAPI description
	result                   func(r Response, publicURL string) (string, error)
	output                   func(*jsonschema.ForOptions) (*jsonschema.Schema, error) // schema of the result
}

var tools = []tool{
	{
		"search_opportunities", "Search earning platforms",
		"Lists the platforms that match the words and every filter, the most recently reviewed first. A filter " +
			"matches only " +
			"what is known: a record whose " +
			"value is unknown matches neither true nor false. Omit a filter that the user did not ask for.",
		"searchOpportunities", search, jsonschema.For[results[record]],
	},
	{
		"get_opportunity", "Get one earning platform",
		"Returns one platform with its overview and all facts. The id is that of a search result; for an unknown one, the " +
			"error names those that are near.",
		"getOpportunity", detail, jsonschema.For[results[record]],
	},
	{
		"get_verification_history", "Get the reviews and link checks of a platform",
		"Lists the reviews and link checks of one platform, the latest first. Needs a key of a tier with the history.",
		"getVerificationHistory", history, jsonschema.For[results[event]],
	},
}

func (t tool) schema(o apidoc.Operation) any {
	properties, required := map[string]any{}, []string{}
	for _, p := range o.Parameters {
		if p.In == "header" {
			continue
		}
		schema := map[string]any{"type": p.Resolved.Types[0], "description": strings.Join(strings.Fields(p.Description), " ")}
		if p.Resolved.Enum != nil {
			schema["enum"] = p.Resolved.Enum
		}
		if p.Resolved.Minimum != nil {
			schema["minimum"] = *p.Resolved.Minimum
		}
		if p.Name == "limit" {
			schema["description"], schema["maximum"], schema["default"] = "The maximum number of results.", maxLimit,
				defaultLimit
		}
		if p.Required {
			required = append(required, p.Name)
		}
		properties[p.Name] = schema
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// target returns the request target for the arguments of a call, a JSON object or nothing. Values
// of filters are left to the API, which charges nothing if it rejects them.
func (t tool) target(o apidoc.Operation, arguments json.RawMessage) (*url.URL, error) {
	values := map[string]any{}
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &values); err != nil {
			return nil, errors.New("the arguments must be a JSON object")
		}
	}
	path, query, names := o.Path, url.Values{}, []string{}
	for _, p := range o.Parameters {
		text, err := argument(p, values)
		if err != nil {
			return nil, err
		}
		delete(values, p.Name)
		if p.In != "header" {
			names = append(names, p.Name)
		}
		switch {
		case text == "":
		case p.In == "path":
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(text), 1)
		default:
			query.Set(p.Name, text)
		}
	}
	for name := range values {
		return nil, fmt.Errorf("%s has no argument %q, only %s", t.name, name, strings.Join(names, ", "))
	}
	return url.Parse(path + "?" + query.Encode())
}

// argument returns the text of an argument, and an empty text if it is omitted or null.
func argument(p apidoc.Parameter, values map[string]any) (text string, err error) {
	switch v := values[p.Name].(type) {
	case nil:
	case string:
		text = strings.TrimSpace(v)
	case bool:
		text = strconv.FormatBool(v)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return "", fmt.Errorf("%s must be a text, a number, true or false", p.Name)
	}
	switch n, err := strconv.Atoi(text); {
	case p.In == "header" && text != "":
		return "", fmt.Errorf("%s is not an argument", p.Name)
	case p.Required && (text == "" || text == "." || text == ".." || strings.Contains(text, "/")):
		return "", fmt.Errorf("%s must be the %s of a record, such as maple-scribe", p.Name, p.Name)
	case p.Name == "limit" && text == "":
		return strconv.Itoa(defaultLimit), nil
	case p.Name == "limit" && (err != nil || n < 1 || n > maxLimit):
		return "", fmt.Errorf("limit must be a number from 1 to %d", maxLimit)
	}
	return text, nil
}
