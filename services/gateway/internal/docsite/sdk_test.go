package docsite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/sdk"
)

// The SDKs are served with their media types, and the page has commands with the address of the
// installation.
func TestSDKs(t *testing.T) {
	site := newSite(t)
	page := plainly(t, site, "/sdk/")
	require.Equal(t, page, plainly(t, site, "/sdk"))
	require.Contains(t, page, "npm install "+publicURL+"/sdk/"+sdk.Tarball+"\n")
	require.Contains(t, page, "pip install "+publicURL+"/sdk/"+sdk.Wheel+"\n")
	require.Contains(t, page, `GOPROXY=&#34;`+publicURL+`/sdk/go,`)

	archives, err := sdk.Archives()
	require.NoError(t, err)
	for name, want := range archives {
		served := get(t, site, "/sdk/"+name)
		require.Equal(t, want, served.Body.Bytes(), name)
		require.NotEqual(t, "text/html; charset=utf-8", served.Header().Get("Content-Type"), name)
	}
	require.Equal(t, "application/gzip", get(t, site, "/sdk/"+sdk.Tarball).Header().Get("Content-Type"))
	require.False(t, has(site, "/sdk/go/example.com/other/@v/list"), "go asks the next proxy about other modules")
}
