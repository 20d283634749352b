package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The front page shows what the catalog has, and the status page shows what the gateway sees.
// Neither waits for another service.
func TestFrontAndStatusPage(t *testing.T) {
	w := newEnvironment(t)
	w.catalog.overview = "{" +
		`"generatedAt":"2026-11-22T12:00:00Z","categories":[{"category":"online","statuses":{"verified":7}}]}`
	w.history.Close()
	gw, key := w.start(), w.authquota.issue("acc_a", developer)
	require.Equal(t, http.StatusOK, gw.get(t, key).status)
	shows := func(path, text string) func() bool {
		return func() bool {
			a := gw.do(t, request{path: path})
			require.Equal(t, http.StatusOK, a.status)
			return strings.Contains(a.body, text)
		}
	}
	const within, every = 30 * time.Second, 5 * time.Millisecond
	require.Eventually(t, shows("/", "7 public records at 22 November 2026, 12:00 UTC."), within, every)
	require.Eventually(t,
		shows("/status", `Verification history</th><td data-label="State"><span class="badge bad">Problem</span>`), within,
		every)
	require.Contains(t, gw.do(t, request{path: "/status"}).body,
		`Accounts and keys</th><td data-label="State"><span class="badge good">Available</span>`)
	require.Eventually(t, shows("/status", "75.00% served"), within, every)
	require.Equal(t, "public, no-cache", gw.do(t, request{path: "/"}).header.Get("Cache-Control"))
}
