package routetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatternsThatMatchTheSamePath(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"GET /listings/:id", "GET /listings/export", true},
		{"GET /listings/{id}", "GET /listings/export", true},
		{"GET /listings/:id", "POST /listings/export", false},
		{"GET /listings/:id", "GET /listings", false},
		{"GET /listings/:id", "GET /listings/:id", false},
		{"GET /listings/:id/pages", "GET /listings/:slug", false},
		{"GET /listings/:id/pages", "GET /listings/:id/:page", true},
		{"GET /listings/:id/pages", "GET /listings/export/:page", true},
		{"GET /listings/:id/pages", "GET /listings/export/all", false},
		{"GET /listings/*path", "GET /listings/export", true},
		{"GET /{path...}", "GET /listings/{id}", true},
		{"GET /{$}", "GET /{id}", true},
		{"GET /keys/:key", "GET /keys/new", false},
	} {
		require.Equal(t, c.want, collide(parts(c.a), parts(c.b), []string{":key"}), "%s and %s", c.a, c.b)
		require.Equal(t, c.want, collide(parts(c.b), parts(c.a), []string{":key"}), "%s and %s", c.b, c.a)
	}
}
