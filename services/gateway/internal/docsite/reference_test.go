package docsite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/pkg/api"
)

// The reference has a page for each operation and a section for each schema of the description,
// with every field, and small pages.
func TestReference(t *testing.T) {
	site := newSite(t)
	const reference = "/docs/reference/"
	require.Contains(t, get(t, site, reference+"schemas.md").Body.String(), "- `currency` string: ISO 4217.\n")
	for _, row := range []string{
		"### `page` {#page}\n\ninteger in query: `1` to `1000000`, default `1`\n",
		"integer in query: `1` to `100`, default `10`\n",
		"boolean in query: `true`, `false`\n", "in query: `online`, `sell`, `local`, `host`\n",
	} {
		require.Contains(t, get(t, site, reference+"listOpportunities.md").Body.String(), row)
	}

	var doc struct {
		Paths map[string]struct {
			Get struct {
				OperationID string `yaml:"operationId"`
			}
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(api.OpenAPIYAML, &doc))
	require.NotEmpty(t, doc.Paths)
	for path, item := range doc.Paths {
		id := item.Get.OperationID
		page := get(t, site, reference+id).Body.String()
		require.Less(t, len(page), 100<<10)
		require.Contains(t, page, `<a href="/account/explorer/`+id+`?`)
		require.Contains(t, page, "<code>"+path+"</code>")
		for _, part := range []string{"&#34;meta&#34;</span>: {", "GET /api/", `class="language-sh"`, `class="language-go"`,
			`class="language-js"`, `class="language-python"`} {
			require.Contains(t, page, part, path)
		}
		require.Contains(t, get(t, site, "/docs/reference").Body.String(), `href="`+reference+id+`"`)
		require.Contains(t, get(t, site, "/sitemap.xml").Body.String(), reference+id+"</loc>")
	}
	require.Contains(t, get(t, site, reference+"listOpportunities").Body.String(),
		`href="/account/explorer/listOpportunities?country=CA&amp;limit=1&amp;province=ON"`)
	schemas := get(t, site, reference+"schemas").Body.String()
	require.Less(t, len(schemas), 100<<10)
	for name, schema := range doc.Components.Schemas {
		section := sectionOf(t, schemas, name)
		for field := range schema.Properties {
			require.Contains(t, section, "<li><code>"+field+"</code> ", name)
		}
	}
	require.IsIncreasing(t, []int{
		strings.Index(schemas, `<h3 id="Opportunity"`), strings.Index(schemas, `<h3 id="Slug"`), strings.Index(schemas,
			`<h3 id="OpportunityList"`),
	})
	require.Equal(t, strings.Index(schemas, "<h3 id"), strings.Index(schemas, `<h3 id="Opportunity"`),
		"the record is first")
	order := sectionOf(t, schemas, "Opportunity")
	require.Less(t, strings.Index(order, "<code>id</code>"), strings.Index(order, "<code>category</code>"),
		"fields keep the order of the description")
	require.Contains(t, sectionOf(t, schemas, "Facts"), `<a href="/docs/reference/schemas#Pay">Pay</a> or null`)
}

// sectionOf returns the part of a page below the heading with an id, up to the next heading with an
// id that is a name.
func sectionOf(t *testing.T, page, id string) string {
	t.Helper()
	_, section, found := strings.Cut(page, ` id="`+id+`">`)
	require.True(t, found, id)
	level := page[len(page)-len(section)-len(` id="`+id+`">`)-len("h2"):][:2]
	section, _, _ = strings.Cut(section, "<"+level)
	return section
}
