package verbs_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListingsShow(t *testing.T) {
	const detail = `{"generatedAt":"2026-11-20T09:00:00Z","listing":{"id":"a","company":{"name":"Acme","website":"https://acme.example/"},
		"applicationUrl":"https://acme.example/apply","category":"sell","subcategory":null,"summary":"Work.","overview":"","startingCost":"",
		"workModel":"","publishedAt":null,"sources":[{"url":"https://s.example/","checkedAt":"2026-11-18"}],"visibility":"withdrawn",
		"curation":{"contact":"jo@acme.example","notes":"Two\nlines."}},
		"record":{"id":"a","verification":{"status":"unverified"},"facts":{"remote":true}},
		"createdAt":"2026-11-01T00:00:00Z","updatedAt":"2026-11-20T08:00:00Z","changedAt":null,
		"changes":[{"at":"2026-11-20T08:00:00Z","actor":"bob","action":"withdrawn","fields":["visibility"]}]}`
	c, sent := admin(t, http.StatusOK, detail)
	out, _, err := verb(t, c.URL, "", "listings", "show", "a/b")
	require.NoError(t, err)
	require.Equal(t, "GET /operator/v1/records/a%2Fb ann ", sent.String())
	for _, want := range []string{
		`Visibility +withdrawn\n`, `Status +unverified\n`, `Published +never\n`, `Source +https://s.example/  2026-11-18\n`,
		`Notes +Two lines.\n`,
		`"remote": true`, `2026-11-20 08:00:00Z +bob +withdrawn +visibility\n`,
	} {
		require.Regexp(t, want, out)
	}
	out, _, err = verb(t, c.URL, "", "listings", "show", "a", "--output", "json")
	require.NoError(t, err)
	require.JSONEq(t, detail, out)
}
