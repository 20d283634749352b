package gateway_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

// The documents follow authquota's tier table and the gateway's own capacity. Until it has the
// table, they are unavailable and the gateway reports that it is not ready.
func TestDocumentsFollowTheTierTable(t *testing.T) {
	w := newEnvironment(t)
	tiers := api.DefaultLimits()
	tiers[1].Limits.PerDay = 4321
	w.authquota.set(func() { w.authquota.down, w.authquota.shared.Tiers = true, tiers })
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
	storetest.Eventually(t, "described", func() bool {
		return r.operate(t, "GET", "/readyz", "", nil, nil).status == http.StatusOK
	})
}

var otherPepper = bytes.Repeat([]byte{8}, 32)

// state is the response of the pod's readiness probe.
func (r replica) state(t *testing.T) string {
	t.Helper()
	return replica{url: r.operations}.do(t, request{path: "/readyz"}).body
}

// A gateway that would reject the keys that authquota issues does not become ready.
func TestOtherPeppersPreventReadiness(t *testing.T) {
	w := newEnvironment(t)
	w.authquota.set(func() { w.authquota.shared.Peppers = apikey.Fingerprints([][]byte{otherPepper}) })
	gw := w.start()
	storetest.Eventually(t, "compared", func() bool {
		state := gw.state(t)
		return strings.HasPrefix(state, `{"status":"not ready","missing":["`) &&
			strings.Contains(state, "the gateway rejects every key that authquota issues")
	})
	operators := gw.operate(t, "GET", "/readyz", "", nil, nil)
	require.Equal(t, http.StatusServiceUnavailable, operators.status)
	require.Contains(t, operators.body, "OPPORTUNITY_KEY_PEPPERS of gateway and authquota differ")
}

// A gateway that served with its peppers goes on when authquota changes to others: it still knows
// the keys that exist.
func TestServingGatewayReportsSettingsThatDifferLater(t *testing.T) {
	w, gw, key := startWithKey(t)
	gw.documented(t)
	w.authquota.set(func() {
		w.authquota.shared = api.SharedSettings{
			Tiers: api.DefaultLimits(), Peppers: apikey.Fingerprints([][]byte{otherPepper}), OlderKeys: "sk-[a-z]+",
			TermsVersion: "2",
		}
	})
	storetest.Eventually(t, "faults", func() bool { return strings.Contains(gw.state(t), `"faults"`) })
	state := gw.state(t)
	require.Contains(t, state, `{"status":"ready"`)
	for _, setting := range []string{"OPPORTUNITY_KEY_PEPPERS", "OPPORTUNITY_OLDER_KEYS", "OPPORTUNITY_TERMS_VERSION"} {
		require.Contains(t, state, setting)
		w.awaitLog(t, setting)
	}
	require.Equal(t, http.StatusOK, gw.get(t, key).status)
}

// The figures on the pages are those that the gateway enforces: cached principals do not keep
// earlier ones.
func TestChangedTierTableAppliesToCachedKeys(t *testing.T) {
	w, gw, key := startWithKey(t)
	gw.documented(t)
	require.Equal(t, http.StatusOK, gw.get(t, key).status)
	w.authquota.set(func() {
		w.authquota.byDigest[key.Digests([][]byte{pepper})[0]].Limits.PerDay = 4321
		w.authquota.shared.Tiers = api.DefaultLimits()
		w.authquota.shared.Tiers[1].Limits.PerDay = 4321
	})
	storetest.Eventually(t, "described", func() bool {
		return strings.Contains(gw.do(t, request{path: "/docs/limits"}).body, `">4,321</td>`)
	})
	require.Contains(t, gw.get(t, key).header.Get("RateLimit-Policy"), "4321")
}

// The front page shows what the catalog has, and the status page shows what the gateway sees.
// Neither waits for another service.
func TestFrontAndStatusPage(t *testing.T) {
	w := newEnvironment(t)
	w.catalog.overview = "{" +
		`"generatedAt":"2026-11-22T12:00:00Z","categories":[{"category":"online","statuses":{"verified":7}}]}`
	w.history.Close()
	gw, key := w.start(), w.authquota.issue("acc_a", developer)
	require.Equal(t, http.StatusOK, gw.get(t, key).status)
	for path, texts := range map[string][]string{
		"/": {"7 public records at 22 November 2026, 12:00 UTC."},
		"/status": {"75.00% served", `Verification history</th><td data-label="State"><span class="badge bad">Problem</span>`,
			`Accounts and keys</th><td data-label="State"><span class="badge good">Available</span>`},
	} {
		for _, text := range texts {
			storetest.Eventually(t, text, func() bool { return strings.Contains(gw.do(t, request{path: path}).body, text) })
		}
	}
	require.Equal(t, "public, no-cache", gw.do(t, request{path: "/"}).header.Get("Cache-Control"))
}
