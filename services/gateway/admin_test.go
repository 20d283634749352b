package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/gateway"
)

func (r replica) operate(t *testing.T, method, path, token string, header http.Header, body io.Reader) response {
	t.Helper()
	q := request{method: method, path: path, header: header.Clone(), body: body}
	if token != "" {
		if q.header == nil {
			q.header = http.Header{}
		}
		q.header.Set("Authorization", "Bearer "+token)
	}
	return replica{url: r.admin}.do(t, q)
}

func TestReadiness(t *testing.T) {
	w, gw, _ := startWithKey(t)
	gw.documented(t)
	w.authquota.set(func() { w.authquota.down = true })
	w.history.Close()
	w.redis.Stop()
	a := gw.operate(t, "GET", "/readyz", "", nil, nil)
	require.Equal(t, 503, a.status)
	var state struct{ Missing []string }
	require.NoError(t, json.Unmarshal([]byte(a.body), &state), a.body)
	require.ElementsMatch(t, []string{"redis", "authquota", "history"}, state.Missing)
}

// Operators see the fault of a service, or of a pair of services behind the gateway.
func TestReadinessNamesTheFault(t *testing.T) {
	const pair = "catalog to history (the token of catalog is rejected)"
	for name, c := range map[string]struct {
		cause func(w *environment, cfg *gateway.Config)
		fault string
	}{
		"pair": {func(w *environment, _ *gateway.Config) {
			w.catalog.ready = `{"status":"ready","faults":["` + pair + `"]}`
		}, pair},
		"no TLS": {func(_ *environment, cfg *gateway.Config) {
			cfg.CatalogURL = strings.Replace(cfg.CatalogURL, "http:", "https:", 1)
		}, "catalog (catalog does not use TLS, but its URL in the settings of gateway begins with https: set " +
			"OPPORTUNITY_TLS_CERT_FILE of catalog)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			gw := w.start(func(cfg *gateway.Config) { c.cause(w, cfg) })
			storetest.Eventually(t, "the fault is shown", func() bool {
				a := gw.operate(t, "GET", "/readyz", "", nil, nil)
				return a.status == 503 && strings.Contains(a.body, `"`+c.fault+`"`)
			})
		})
	}
}

// A gateway that never reached Redis is not ready, and one that lost it is.
func TestReadyOnceRedisWasReached(t *testing.T) {
	w := newEnvironment(t)
	w.redis.Stop()
	gw := w.start()
	status := func() int { return replica{url: gw.operations}.do(t, request{method: "GET", path: "/readyz"}).status }
	require.Equal(t, 503, status())
	w.redis.Start()
	storetest.Eventually(t, "ready", func() bool { return status() == 200 })
	w.redis.Stop()
	require.Equal(t, 200, status())
}

// Package admin tests the table of endpoints, and package proxy which headers pass.
func TestOperatorAPI(t *testing.T) {
	w, gw, _ := startWithKey(t)
	big := strings.Repeat("x", 1<<20)
	for path, service := range map[string]*service{"/operator/v1/listings/import": w.catalog,
		"/operator/v1/events/append": w.history} {
		a := gw.operate(t, "POST", path, annsToken, http.Header{api.ActorHeader: {"mallory"}, "Cookie": {"a=b"}},
			strings.NewReader(big))
		require.Equal(t, 200, a.status, a.body)
		got := service.requests()[0]
		require.Equal(t, path, got.RequestURI)
		require.Equal(t, "ann", got.Header.Get(api.ActorHeader), "actor of a named token")
		require.Equal(t, "Bearer "+servicetest.Token(peer.Gateway), got.Header.Get("Authorization"))
		require.Empty(t, got.Header.Get("Cookie"))
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.Equal(t, big, string(body))
	}
	a := gw.operate(t, "GET", "/operator/v1/keys?account=a", sharedToken, http.Header{api.ActorHeader: {"bob"}}, nil)
	require.Contains(t, a.body, "operator (bob)", "a name is added to that of a shared token, and never replaces it")
	require.Equal(t, "invalid_api_key",
		gw.operate(t, "GET", "/operator/v1/keys", servicetest.Token(peer.Gateway), nil, nil).code(t), "token of a service")
	for _, secret := range []string{annsToken, sharedToken, servicetest.Token(peer.Gateway)} {
		require.NotContains(t, w.log.String(), secret)
	}
}

// A truncated response to an operator is logged as JSON by the gateway.
func TestTruncatedOperatorResponseIsLogged(t *testing.T) {
	w, gw, _ := startWithKey(t)
	w.catalog.respondWith(truncated)
	_, err := replica{url: gw.admin}.try(request{path: "/operator/v1/listings/export",
		header: http.Header{"Authorization": {"Bearer " + annsToken}}})
	require.Error(t, err)
	require.Regexp(t, `"level":"WARN","msg":"response to an operator ended early",`+
		`"service":"gateway"[^\n]*"service_called":"catalog"`, w.log.String())
}
