package admin

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/routetest"
	"opportunity.internal/services/gateway/internal/proxy"
)

// countingService responds to every request and counts them.
type countingService struct{ calls int }

func (s *countingService) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls++
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func tokenOf(role api.Role) string { return strings.Repeat(string(role[:1]), 31) + string(role[1]) }

func newAPI(t *testing.T) (http.Handler, *countingService) {
	t.Helper()
	entries := []string{strings.Repeat("s", 40), "old:" + strings.Repeat("c", 32) + ":colon"}
	for _, role := range api.Roles {
		entries = append(entries, "ann."+string(role)+":"+string(role)+":"+tokenOf(role))
	}
	tokens, err := ParseTokens(entries)
	require.NoError(t, err)
	owners, service := Owners{}, new(countingService)
	for _, name := range []string{peer.Catalog, peer.History, peer.Authquota, peer.Billing} {
		owners[name] = proxy.New(name, &url.URL{Scheme: "http", Host: name + ".test"}, "internal", service)
	}
	return Handler(tokens, owners, nil, problem.Writer{Log: slog.New(slog.DiscardHandler)}), service
}

func request(h http.Handler, method, path, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// permissions states independently of the table which roles can use the endpoints whose path has a
// prefix. The first match counts.
var permissions = []struct {
	prefix string
	roles  string
}{
	{"GET me", "curator publisher support"},
	{"GET audit", "support"}, {"GET usage", "support"}, {"GET keys", "support"}, {"POST keys", "support"},
	{"GET accounts", "support"}, {"POST accounts", "support"},
	{"POST announcements", ""}, {"POST billing", ""},
	{"POST listings", "publisher"}, {"POST events", "publisher"},
	{"POST reviews/records/{id}/decline-withdrawal", "publisher"},
	{"", "curator publisher"},
}

func TestNoFixedPathIsBesideAnID(t *testing.T) {
	var patterns []string
	for _, e := range routes {
		patterns = append(patterns, e.method+" "+Prefix+e.path)
	}
	routetest.RequireNoFixedPathBesideAnID(t, patterns)
}

func TestEveryRouteAdmitsItsRolesOnly(t *testing.T) {
	h, service := newAPI(t)
	for _, e := range routes {
		i := slices.IndexFunc(permissions, func(p struct{ prefix, roles string }) bool {
			return strings.HasPrefix(e.method+" "+e.path, p.prefix)
		})
		for _, role := range api.Roles {
			path := Prefix + strings.ReplaceAll(e.path, "{id}", "some-id")
			service.calls = 0
			got := request(h, e.method, path, tokenOf(role))
			if role == api.RoleAdmin || slices.Contains(strings.Fields(permissions[i].roles), string(role)) {
				require.Equal(t, http.StatusOK, got.Code, "%s %s as %s", e.method, path, role)
				continue
			}
			require.Equal(t, http.StatusForbidden, got.Code, "%s %s as %s", e.method, path, role)
			require.Contains(t, got.Body.String(), `"code":"forbidden"`)
			require.Zero(t, service.calls, "a forbidden request must not reach a service")
		}
		require.Equal(t, http.StatusUnauthorized, request(h, e.method, Prefix+strings.ReplaceAll(e.path, "{id}", "x"),
			"wrong").Code)
	}
}

func TestMeNamesTheOperatorAndItsRole(t *testing.T) {
	h, service := newAPI(t)
	for token, want := range map[string]api.Operator{
		tokenOf(api.RoleCurator):           {Name: "ann.curator", Role: api.RoleCurator},
		tokenOf(api.RoleSupport):           {Name: "ann.support", Role: api.RoleSupport},
		strings.Repeat("s", 40):            {Name: "operator", Role: api.RoleAdmin},
		strings.Repeat("c", 32) + ":colon": {Name: "old", Role: api.RoleAdmin},
	} {
		got := request(h, http.MethodGet, Prefix+"me", token)
		require.Equal(t, http.StatusOK, got.Code)
		var o api.Operator
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &o))
		require.Equal(t, want, o)
	}
	require.Zero(t, service.calls)
	require.Contains(t, request(h, http.MethodGet, Prefix+"me", "").Body.String(), "missing_api_key")
	require.Equal(t, http.StatusMethodNotAllowed, request(h, http.MethodDelete, Prefix+"me", tokenOf(api.RoleAdmin)).Code)
	require.Equal(t, http.StatusNotFound, request(h, http.MethodGet, Prefix+"me/x", tokenOf(api.RoleAdmin)).Code)
}

func TestInvalidTokenEntriesAreRejected(t *testing.T) {
	token := strings.Repeat("t", 32)
	for _, entry := range []string{"ann:curater:" + token, "ann:curator:short", ":curator:" + token, "ann:curator:",
		"an n:curator:" + token} {
		_, err := ParseTokens([]string{token, entry})
		require.ErrorContains(t, err, "entry 2", entry)
		require.NotContains(t, err.Error(), token)
	}
	_, err := ParseTokens([]string{"ann:curater:" + token})
	require.ErrorContains(t, err, "admin, curator, publisher, support")
	_, err = ParseTokens([]string{"ann:curator:" + token, "bob:admin:" + token})
	require.ErrorContains(t, err, "repeats")
}

// An endpoint that is not in the table cannot be reached, whatever its service serves.
func TestTableHasEveryEndpointOfTheServices(t *testing.T) {
	served := regexp.MustCompile(`(?:[.\s]|Method|")(GET|Get|POST|Post|PUT|Put|DELETE|Delete)[",( ` +
		`]+"?/operator/v1/([^"]+)"`)
	parameter := regexp.MustCompile(`:\w+|{\w+}`) // a service may name it differently
	found := 0
	check := func(file string, _ fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(filepath.Dir(file), "test") || strings.Contains(file, "/testkit/") ||
			!strings.HasSuffix(file, ".go") ||
			strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		for _, m := range served.FindAllStringSubmatch(string(source), -1) {
			method, path := strings.ToUpper(m[1]), parameter.ReplaceAllString(m[2], "{}")
			require.True(t, slices.ContainsFunc(routes, func(e route) bool {
				return e.method == method && parameter.ReplaceAllString(e.path, "{}") == path
			}), "%s serves %s %s: add it to routes", file, method, path)
			found++
		}
		return err
	}
	for _, service := range []string{"catalog", "history", "authquota", "billing"} {
		require.NoError(t, filepath.WalkDir("../../../"+service, check))
	}
	require.Equal(t, len(routes)-1, found, "want every route but GET me in a service")
}
