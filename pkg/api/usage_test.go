package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestLoggedParams(t *testing.T) {
	for raw, want := range map[string]string{
		"":                              "",
		"remote=true&country=ca&page=2": "country=ca&page=2&remote=true",
		"checked_after=2026-11-20T09%3A00%3A00%2B01:00": "checked_after=2026-11-20T09%3A00%3A00%2B01:00",
		"province=CA-ON&category=host&limit=100":        "category=host&limit=100&province=CA-ON",
		"country=oda_live_x&q=secret&remote=TRUE":       "",
		"verified=false&key=oda_live_x":                 "verified=false",
		"country=%zz&page=01&limit=-1&province=Ontario": "",
		"category=me@example.org&checked_after=mine":    "",
		"remote=true&" + strings.Repeat("x", 5000):      "",
	} {
		got := api.LoggedParams(raw)
		require.Equal(t, want, got, raw)
		require.Equal(t, got, api.LoggedParams(got), "authquota accepts what a gateway sends")
	}
}

// Each parameter of the list operation is logged, and no other.
func TestLoggedParamsAreThoseOfTheList(t *testing.T) {
	values := map[string]string{"country": "CA", "province": "ON", "category": "host", "checked_after": "2026-11-20",
		"page": "1", "limit": "10"}
	var all, want []string
	for _, ref := range description(t).Paths.Value("/api/v1/opportunities").Get.Parameters {
		name := ref.Value.Name
		if ref.Value.In != openapi3.ParameterInQuery {
			continue
		}
		value := values[name]
		if value == "" {
			value = "true"
		}
		all = append(all, name+"="+value)
	}
	require.NotEmpty(t, all)
	want = slices.Sorted(slices.Values(all))
	require.Equal(t, strings.Join(want, "&"), api.LoggedParams(strings.Join(all, "&")))
}
