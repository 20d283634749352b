package listingfile_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/listingfile"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(listingfile.Schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("listings.json", document))
	schema, err := c.Compile("listings.json")
	require.NoError(t, err)
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, line string) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	require.NoError(t, err)
	return schema.Validate(value)
}

// beyond lists the beginnings of the problems that only Read detects. The $comment of the schema
// describes each.
var beyond = []string{
	`facts.pay.minimum: "`,
	"companyProfile.foundedYear.value: must be a whole number, with all its digits; it is 2.01E+03",
	"the file is a JSON array", "facts.countryEligibility[1].includedRegions[0]",
	"facts.countryEligibility[0].excludedRegions[0]",
	"facts.pay.maximum: 10 must not be below", "companyProfile.experienceSources[0].rating.value",
	"companyProfile.experienceSources[0].rating.best",
	"publishedAt: must not be in the future", "publishedAt: must be in the years",
	"company.name: must not be empty", // " "; the schema rejects only ""
	"sources[0].checkedAt: must not be in the future", "sources[1]: ", "facts.languages[1]: ",
	"summary: must be plain text", "overview: has ",
	"facts.pay.currency: must be a currency code of ISO 4217, three upper-case letters such as CAD; \"CDN\"",
	"facts.countryEligibility[1].country: must be a country code of ISO 3166-1, two upper-case letters such as CA; \"UK\"",
}

func TestSchemaRejectsInvalidLines(t *testing.T) {
	schema := compiled(t)
	require.NoError(t, validate(t, schema, oneLine(full)))
	for line := range strings.Lines(string(listingfile.Example)) {
		require.NoError(t, validate(t, schema, line))
	}
	for _, c := range wrong {
		if slices.ContainsFunc(beyond, func(b string) bool { return strings.HasPrefix(c.problem, b) }) ||
			strings.Contains(c.problem, ": must not contain ") {
			continue
		}
		require.Error(t, validate(t, schema, strings.Replace(oneLine(full), oneLine(c.from), c.to, 1)), c.problem)
	}
	for _, header := range []string{`{"format":"x","version":1}`, `{"format":"opportunity-listings","version":2}`,
		`{"format":"opportunity-listings"}`} {
		require.Error(t, validate(t, schema, header))
	}
}

// TestSchemaAcceptsValidLines omits or replaces each field of a line. The schema must accept every
// line that Read accepts.
func TestSchemaAcceptsValidLines(t *testing.T) {
	schema := compiled(t)
	var line any
	require.NoError(t, json.Unmarshal([]byte(oneLine(full)), &line))
	taken := 0
	try := func() {
		text, err := json.Marshal(line)
		require.NoError(t, err)
		if len(read(t, string(text)).Rejected) == 0 {
			taken++
			require.NoError(t, validate(t, schema, string(text)), string(text))
		}
	}
	values := []any{
		nil, "", "x", "ON", "on", "HTTP://A.example:80", "https://a.example/@?x#y", "2026-01-02", "2026-01-02T03:04:05Z",
		"unknown", "published",
		0.0, 1.0, 2.5, 1e20, 2000.0, true, false, []any{}, map[string]any{},
	}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, was := range v {
				for _, value := range values {
					v[name] = value
					try()
				}
				delete(v, name)
				try()
				v[name] = was
				visit(was)
			}
		case []any:
			for i, was := range v {
				for _, value := range values {
					v[i] = value
					try()
				}
				v[i] = was
				visit(was)
			}
		}
	}
	visit(line)
	require.Greater(t, taken, 100)
}
