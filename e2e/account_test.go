package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAccountPagesAreReachable checks that the account pages work without a key, at both addresses
// of the gateway, and that their errors errors as pages and programs as JSON.
func TestAccountPagesAreReachable(t *testing.T) {
	d := shared(t)
	browser := map[string]string{"Accept": "text/html"}
	for _, base := range []string{d.url, strings.Replace(d.url, "localhost", "127.0.0.1", 1)} {
		page := do(t, base, call{path: "/account/sign-in", header: browser})
		require.Equal(t, http.StatusOK, page.StatusCode, "%s", page.body)
		require.True(t, strings.HasPrefix(page.Header.Get("Content-Type"), "text/html"))
		require.Equal(t, "no-store", page.Header.Get("Cache-Control"))
		require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Empty(t, page.Header.Get("X-RateLimit-Limit"))
		require.Len(t, page.Header.Values("X-Request-Id"), 1)
	}
	wrong := do(t, d.url, call{path: "/account/nothing", header: browser})
	require.Equal(t, http.StatusNotFound, wrong.StatusCode)
	require.Contains(t, string(wrong.body), "<html")
	for _, path := range []string{"/account//keys", "/account/../internal/v1/principals"} {
		require.Equal(t, "not_found", do(t, d.url, call{path: path}).code(), path)
	}
}
