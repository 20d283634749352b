package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/gateway"
)

// The documents follow authquota's tier table and the gateway's own capacity. Until it has the table, they are unavailable
// and the gateway reports that it is not ready.
func TestDocumentsFollowTheTierTable(t *testing.T) {
	w := newEnvironment(t)
	tiers := api.DefaultLimits()
	tiers[1].Limits.PerDay = 4321
	w.authquota.set(func() { w.authquota.down, w.authquota.tiers = true, tiers })
	gw := w.start(func(cfg *gateway.Config) { cfg.ServiceCapacity = 7654 })
	for _, path := range []string{"/docs/limits", "/openapi.yaml"} {
		a := gw.do(t, request{path: path})
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Equal(t, "1", a.header.Get("Retry-After"))
	}
	require.Equal(t, http.StatusOK, gw.do(t, request{path: "/docs"}).status)

	w.authquota.set(func() { w.authquota.down = false })
	gw.documented(t)
	page := gw.do(t, request{path: "/docs/limits"}).body
	require.Contains(t, page, `">4,321</td>`)
	require.Contains(t, page, "share 7,654 requests a day")

	w.authquota.set(func() { w.authquota.down = true })
	require.Equal(t, http.StatusOK, gw.do(t, request{path: "/docs/limits"}).status, "the last figures stay")
}

// documented waits until the gateway has fetched the tier table.
func (r replica) documented(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return r.operate(t, "GET", "/readyz", "", nil, nil).status == http.StatusOK
	}, 30*time.Second, 5*time.Millisecond)
}
