package docsite_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	pages "opportunity.internal/docs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/docsite"
)

// odd has only figures that differ from the defaults.
var odd = func() docsite.Figures {
	figures := docsite.Figures{Capacity: 31337, Tiers: api.DefaultLimits()}
	for i := range figures.Tiers {
		limits := &figures.Tiers[i].Limits
		limits.PerMinute, limits.PerDay, limits.PageSize = limits.PerMinute+7, limits.PerDay+7, limits.PageSize-1
	}
	figures.Tiers[api.Free.Rank()].Limits = api.Limits{PerMinute: 7, PerDay: 71, PageSize: 9, History: false}
	figures.Tiers[api.Developer.Rank()].Limits = api.Limits{PerMinute: 77, PerDay: 7771, PageSize: 19, History: true}
	figures.Tiers[api.Commercial.Rank()].Limits = api.Limits{PerMinute: 777, PerDay: 1234567, PageSize: 29, History: true}
	return figures
}()

// Documents state the figures of the installation wherever the sources state a default.
func TestFiguresOfTheInstallation(t *testing.T) {
	site := siteOf(t, docsite.Operator{})
	before := get(t, site, "/docs/limits").Header()
	require.NoError(t, site.Show(odd))
	after := get(t, site, "/docs/limits").Header()
	require.NotEqual(t, before.Get("ETag"), after.Get("ETag"))
	require.Equal(t, "public, no-cache", after.Get("Cache-Control"), "revalidated, because settings change the figures")
	require.Equal(t, "public, max-age=300", get(t, site, "/docs/data").Header().Get("Cache-Control"))

	limits := plainly(t, site, "/docs/limits")
	require.Contains(t, limits, "<td>free</td>\n<td>71</td>\n<td>7</td>\n<td>no</td>\n<td>9</td>")
	require.Contains(t, limits, "<td>commercial</td>\n<td>1,234,567</td>\n<td>777</td>\n<td>yes</td>\n<td>29</td>")
	require.Contains(t, limits, "share 31,337 requests a day")
	require.Contains(t, limits, "X-RateLimit-Limit: 71\n")
	for _, path := range []string{"/openapi.yaml", "/openapi.json"} {
		description := get(t, site, path).Body.String()
		for _, figure := range []string{
			"| developer | 7,771 | 77 | yes | 19 |", "share 31,337 requests a day", "(77 requests in any",
			"(1234567 requests per",
		} {
			require.Contains(t, description, figure, path)
		}
	}
	require.Contains(t, get(t, site, "/openapi.yaml").Body.String(), "example: 7771\n")

	all := []string{"/openapi.yaml", "/docs", "/docs/reference"}
	for _, p := range pages.Pages[1:] {
		if p.Slug != "changelog" { // states figures of releases, not limits of the installation
			all = append(all, "/docs/"+p.Slug)
		}
	}
	for _, path := range all {
		require.NotRegexp(t, `\b(1,000|10,000|50,000|1000|10000|50000)\b|q=(10|60|100|300);|(of |\()(10|60|100|300) requests`,
			get(t, site, path).Body.String(), "%s states a default: word it as figures.go does", path)
	}
}

// Without the figures of the installation there are no defaults in their place: documents that
// state figures are unavailable.
func TestUnknownFigures(t *testing.T) {
	site, err := docsite.New(publicURL, docsite.Operator{})
	require.NoError(t, err)
	for path, want := range map[string]bool{"/docs/limits": false, "/docs/reference": false, "/openapi.yaml": false,
		"/openapi.json": false, "/docs": true, "/docs/errors": true} {
		err := site.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		if want {
			require.NoError(t, err, path)
		} else {
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, path)
		}
	}
	require.Error(t, site.Show(docsite.Figures{Tiers: odd.Tiers[1:], Capacity: 1}), "figures without a tier")
	require.Error(t, site.Show(docsite.Figures{Tiers: odd.Tiers}), "figures without a capacity")
}
