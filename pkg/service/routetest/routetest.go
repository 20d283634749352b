// Package routetest compares the routes of a service with the rules of its callers. It is apart from servicetest because linking gin into
// every test of a store takes longer than most of them.
package routetest

import (
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// RequireRules fails the test unless each route has one rule of the service name, and each rule has a route.
func RequireRules(t testing.TB, name string, routes gin.RoutesInfo) {
	t.Helper()
	covered := map[string]bool{}
	for _, route := range routes {
		var of []string
		for _, r := range peer.Rules(name) {
			if r.Covers(route.Path) {
				of = append(of, r.Path)
				covered[r.Path] = true
			}
		}
		require.Len(t, of, 1, "add a rule for %s %s of %s to peer.Rules", route.Method, route.Path, name)
	}
	for _, r := range peer.Rules(name) {
		if r.Path == api.MarkPath {
			continue // served by setback.Guard
		}
		require.True(t, covered[r.Path], "the rule for %s of %s has no route", r.Path, name)
	}
}
