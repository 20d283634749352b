package servicetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// RequireRules fails the test unless each route has one rule of the service name, and each rule has
// a route. split returns the method and the path of a route: R is gin.RouteInfo, which this package
// does not import because linking gin into every test of a store takes longer than most of them.
// See RequireNoFixedPathBesideAnID for generated.
func RequireRules[R any](t testing.TB, name string, routes []R, split func(R) (method, path string),
	generated ...string) {
	t.Helper()
	var patterns []string
	for _, r := range routes {
		method, path := split(r)
		patterns = append(patterns, method+" "+path)
	}
	RequireNoFixedPathBesideAnID(t, patterns, generated...)
	covered := map[string]bool{}
	for i, route := range routes {
		_, path := split(route)
		var of []string
		for _, r := range peer.Rules(name) {
			if r.Covers(path) {
				of = append(of, r.Path)
				covered[r.Path] = true
			}
		}
		require.Len(t, of, 1, "add a rule for %s of %s to peer.Rules", patterns[i], name)
	}
	for _, r := range peer.Rules(name) {
		if r.Path == api.MarkPath {
			continue // served by setback.Guard
		}
		require.True(t, covered[r.Path], "the rule for %s of %s has no route", r.Path, name)
	}
}

// RequireNoFixedPathBesideAnID fails the test if two patterns with one method match the same path,
// because a record whose id is the fixed part could not be reached. Patterns are those of gin or
// http.ServeMux. generated names parameters with ids that the service chooses, and that no fixed
// part has.
func RequireNoFixedPathBesideAnID(t testing.TB, patterns []string, generated ...string) {
	t.Helper()
	for i, a := range patterns {
		for _, b := range patterns[:i] {
			require.False(t, collide(parts(a), parts(b), generated), "%s and %s match the same path: move the fixed one", a, b)
		}
	}
}

// parts returns the method and the segments of a pattern. A parameter begins with a colon, one for
// all further segments with an asterisk.
func parts(pattern string) []string {
	parts := strings.Split(strings.Replace(pattern, " /", "/", 1), "/")
	for i, p := range parts {
		name, is := strings.CutPrefix(strings.TrimSuffix(p, "}"), "{")
		rest, all := strings.CutSuffix(name, "...")
		switch {
		case p == "{$}":
			parts[i] = ""
		case all:
			parts[i] = "*" + rest
		case is:
			parts[i] = ":" + name
		}
	}
	return parts
}

// collide reports whether a path matches both patterns, unless they differ in the names of
// parameters only.
func collide(a, b, generated []string) bool {
	different := false
	for i := range min(len(a), len(b)) {
		isA, isB := strings.HasPrefix(a[i], ":"), strings.HasPrefix(b[i], ":")
		switch {
		case strings.HasPrefix(a[i], "*") || strings.HasPrefix(b[i], "*"):
			return true
		case isA && isB:
		case isA && slices.Contains(generated, a[i]) || isB && slices.Contains(generated, b[i]):
			return false
		case isA || isB:
			different = true
		case a[i] != b[i]:
			return false
		}
	}
	return different && len(a) == len(b)
}
