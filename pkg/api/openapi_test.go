package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// bodies are the Go types of all response bodies, by schema name.
var bodies = map[string]reflect.Type{
	"OpportunityList":   reflect.TypeFor[api.OpportunityList](),
	"OpportunityDetail": reflect.TypeFor[api.OpportunityDetail](),
	"EventList":         reflect.TypeFor[api.EventList](),
	"ChangeList":        reflect.TypeFor[api.ChangeList](),
	"Error":             reflect.TypeFor[api.Error](),
}

func description(t *testing.T) *openapi3.T {
	t.Helper()
	openapi3.DefineStringFormatValidator("uri", openapi3.NewCallbackValidator(func(s string) error {
		u, err := url.Parse(s)
		if err == nil && !u.IsAbs() {
			err = fmt.Errorf("%q is not absolute", s)
		}
		return err
	}))
	openapi3.DefineStringFormatValidator("uuid", openapi3.NewCallbackValidator(uuid.Validate))
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPIYAML)
	require.NoError(t, err)
	return doc
}

func TestDescriptionIsValid(t *testing.T) {
	doc := description(t)
	require.NoError(t, doc.Validate(t.Context(), openapi3.EnableSchemaFormatValidation(), openapi3.EnableMultiError()))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Equal(t, api.ContractVersion, doc.Info.Version)

	require.Equal(t, "http://localhost:8080", doc.Servers[0].URL, "the gateway replaces it with its own URL")
}

func TestOperations(t *testing.T) {
	const filters = "country province remote verified degree_required experience_required flexible category checked_after "
	got := map[string]string{}
	for path, item := range description(t).Paths.Map() {
		require.Len(t, item.Operations(), 1, "only GET")
		got[path] = item.Get.OperationID + ":"
		for _, p := range item.Get.Parameters {
			require.NotEmpty(t, p.Value.Description, p.Value.Name)
			if p.Value.In == openapi3.ParameterInQuery {
				got[path] += " " + p.Value.Name
			}
		}
	}
	require.Equal(t, map[string]string{
		"/api/v1/opportunities":              "listOpportunities: " + filters + "page limit",
		"/api/jobs":                          "listJobsAlias: " + filters + "page limit",
		"/api/v1/search":                     "searchOpportunities: " + filters + "q application_status language pay_unit subcategory page limit",
		"/api/v1/opportunities/{id}":         "getOpportunity:",
		"/api/v1/opportunities/{id}/history": "getVerificationHistory: page limit",
		"/api/v1/changes":                    "listChanges: after limit",
	}, got)
}

func TestHeadersOfResponses(t *testing.T) {
	limits := []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy",
		"RateLimit"}
	validators := append([]string{"ETag", "Cache-Control", "Vary"}, limits...)
	want := map[string][]string{
		"200": validators, "304": validators, "400": limits, "401": {"WWW-Authenticate"}, "402": limits, "404": limits,
		"405": {"Allow"}, "410": limits, "429": append([]string{"Retry-After"}, limits...), "503": {"Retry-After"},
	}
	for path, item := range description(t).Paths.Map() {
		for status, response := range item.Get.Responses.Map() {
			for _, name := range append([]string{"X-Request-Id", "Cache-Control"}, want[status]...) {
				require.Contains(t, response.Value.Headers, name, "%s %s", path, status)
				require.True(t, response.Value.Headers[name].Value.Required, "%s %s %s", path, status, name)
			}
		}
	}
}

// TestErrorCodes compares the enum and the examples of each status with the table of codes, in both
// directions.
func TestErrorCodes(t *testing.T) {
	doc := description(t)
	var codes []string
	byStatus := map[string][]string{}
	for _, e := range problem.Table {
		codes = append(codes, string(e.Code))
		status := strconv.Itoa(e.Status)
		byStatus[status] = append(byStatus[status], string(e.Code))
	}
	require.ElementsMatch(t, codes, enum(doc.Components.Schemas["ErrorCode"].Value))

	for path, item := range doc.Paths.Map() {
		for status, response := range item.Get.Responses.Map() {
			if status < "400" {
				continue
			}
			var shown []string
			for name, example := range response.Value.Content["application/json"].Examples {
				shown = append(shown, name)
				var body api.Error
				strictly(t, example.Value.Value, &body)
				require.Equal(t, name, body.Error.Code)
				require.True(t, strings.HasSuffix(body.Documentation, "/docs/errors#"+name), body.Documentation)
			}
			require.ElementsMatch(t, byStatus[status], shown, "%s %s", path, status)
		}
	}
}

// TestSchemasEqualTheTypes compares the schemas with the body types, recursively.
func TestSchemasEqualTheTypes(t *testing.T) {
	c := comparison{t: t, doc: description(t), enums: constants(t), seen: map[string]bool{}}
	for name, body := range bodies {
		c.equal(name, body, openapi3.NewSchemaRef("#/components/schemas/"+name, c.doc.Components.Schemas[name].Value))
	}
	// These have a schema of their own, but are plain strings in Go.
	for _, name := range []string{"Slug", "ErrorCode", "Instant"} {
		c.seen[name] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(c.doc.Components.Schemas)), slices.Collect(maps.Keys(c.seen)))
}

type comparison struct {
	t     *testing.T
	doc   *openapi3.T
	enums map[string][]string // values of the package's string types
	seen  map[string]bool     // schemas already compared
}

func (c comparison) equal(at string, goType reflect.Type, ref *openapi3.SchemaRef) {
	t, schema := c.t, ref.Value
	if goType.Kind() == reflect.Pointer {
		c.equal(at, goType.Elem(), c.notNull(at, ref))
		return
	}
	require.False(t, schema.Type.Includes("null"), "%s is null in the schema alone", at)

	if goType.PkgPath() == reflect.TypeFor[api.Opportunity]().PkgPath() {
		require.Equal(t, "#/components/schemas/"+goType.Name(), ref.Ref, at)
		if c.seen[goType.Name()] {
			return
		}
		c.seen[goType.Name()] = true
	}
	switch {
	case goType == reflect.TypeFor[time.Time]():
		require.True(t, schema.Type.Is("string"), at)
		require.Equal(t, "date-time", schema.Format, at)
	case goType.Kind() == reflect.Struct:
		c.equalObject(goType, schema)
	case goType.Kind() == reflect.Slice:
		require.True(t, schema.Type.Is("array"), at)
		c.equal(at+"[]", goType.Elem(), schema.Items)
	default:
		kinds := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
			reflect.Float64: "number"}
		require.True(t, schema.Type.Is(kinds[goType.Kind()]), "%s is %s in Go and %v in the schema", at, goType,
			schema.Type)
		if values := c.enums[goType.Name()]; values != nil {
			require.ElementsMatch(t, values, enum(schema), at)
		}
	}
}

func (c comparison) equalObject(goType reflect.Type, schema *openapi3.Schema) {
	t := c.t
	require.True(t, schema.Type.Is("object"), goType)
	require.Equal(t, openapi3.BoolSchema{}, schema.AdditionalProperties, "%s: version 1 may add fields", goType)
	var fields []string
	for _, f := range reflect.VisibleFields(goType) {
		if f.Anonymous {
			continue
		}
		name := f.Tag.Get("json")
		fields = append(fields, name)
		require.Contains(t, schema.Properties, name, goType)
		c.equal(goType.Name()+"."+name, f.Type, schema.Properties[name])
	}
	require.ElementsMatch(t, fields, slices.Collect(maps.Keys(schema.Properties)), goType)
	require.ElementsMatch(t, fields, schema.Required, goType)
}

// notNull returns the non-null part of a nullable schema: the other type of a type array, or the
// other branch of a oneOf.
func (c comparison) notNull(at string, ref *openapi3.SchemaRef) *openapi3.SchemaRef {
	t, schema := c.t, ref.Value
	if len(schema.OneOf) == 2 {
		require.True(t, schema.OneOf[1].Value.Type.Is("null"), at)
		return schema.OneOf[0]
	}
	require.True(t, schema.Type.Includes("null"), "%s is never null in the schema", at)
	other := *schema
	other.Type = &openapi3.Types{(*schema.Type)[0]}
	return openapi3.NewSchemaRef(ref.Ref, &other)
}

// constants returns the constants of every string type of the package. It reads them from the
// source, because reflection has no access to constants.
func constants(t *testing.T) map[string][]string {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	values := map[string][]string{}
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.CONST {
				continue
			}
			for _, spec := range gen.Specs {
				if s := spec.(*ast.ValueSpec); s.Type != nil {
					value, err := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
					require.NoError(t, err)
					name := s.Type.(*ast.Ident).Name
					values[name] = append(values[name], value)
				}
			}
		}
	}
	require.NotEmpty(t, values["Category"])
	return values
}

func enum(schema *openapi3.Schema) []string {
	var values []string
	for _, v := range schema.Enum {
		values = append(values, v.(string))
	}
	return values
}

// TestExamplesAreResponses checks that each example equals the encoding of the Go type, with
// nothing missing or added.
func TestExamplesAreResponses(t *testing.T) {
	shown := map[string]bool{}
	for _, response := range description(t).Components.Responses {
		for _, media := range response.Value.Content {
			name := strings.TrimPrefix(media.Schema.Ref, "#/components/schemas/")
			require.Contains(t, bodies, name)
			require.NotEmpty(t, media.Examples)
			shown[name] = true
			for _, example := range media.Examples {
				body := reflect.New(bodies[name]).Interface()
				given := strictly(t, example.Value.Value, body)
				again, err := json.Marshal(body)
				require.NoError(t, err)
				require.JSONEq(t, string(given), string(again))
			}
		}
	}
	require.Len(t, shown, len(bodies))
}

func strictly(t *testing.T, value, into any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(into))
	return encoded
}
