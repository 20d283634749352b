package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"opportunity.internal/pkg/api"
)

// The reference has a section for each operation and schema of the description, with every field, and stays a small page.
func TestReference(t *testing.T) {
	page := get(t, newSite(t), "/docs/reference").Body.String()
	require.Less(t, len(page), 100<<10)

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
		section := sectionOf(t, page, item.Get.OperationID)
		require.Contains(t, section, `<a href="/account/explorer/`+item.Get.OperationID+`?`)
		require.Contains(t, section, `<span class="path">`+path+"</span>")
		for _, part := range []string{"&#34;meta&#34;: {", "GET /api/", `class="language-sh"`, `class="language-go"`, `class="language-js"`, `class="language-python"`} {
			require.Contains(t, section, part, path)
		}
	}
	for name, schema := range doc.Components.Schemas {
		section := sectionOf(t, page, name)
		for field := range schema.Properties {
			require.Contains(t, section, "<td><code>"+field+"</code></td>", name)
		}
	}
	order := sectionOf(t, page, "getOpportunity")
	require.Contains(t, sectionOf(t, page, "listOpportunities"), `href="/account/explorer/listOpportunities?country=CA&amp;limit=1&amp;province=ON"`)
	require.Less(t, strings.Index(order, "&#34;id&#34;"), strings.Index(order, "&#34;category&#34;"), "fields keep the order of the description")
	require.Contains(t, sectionOf(t, page, "Facts"), `<a href="#Pay">Pay</a> or null`)
}

func sectionOf(t *testing.T, page, id string) string {
	t.Helper()
	_, section, found := strings.Cut(page, `<section aria-labelledby="`+id+`">`)
	require.True(t, found, id)
	section, _, _ = strings.Cut(section, "</section>")
	return section
}
