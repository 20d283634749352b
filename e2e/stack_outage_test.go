package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

// TestRedisStops checks that without Redis every request is rejected with 503, not as a problem of
// the key, and that service resumes automatically with the earlier usage intact.
func TestRedisStops(t *testing.T) {
	s := newStack(t)
	key := s.issue(t, api.Developer)
	list := call{path: "/api/v1/opportunities", key: key.Key}
	require.Equal(t, http.StatusOK, decided(t, s.url, list).StatusCode)
	s.usedToday(t, key.Account, 1)
	fresh := s.issue(t, api.Developer)

	s.redis.Stop()
	for _, gateway := range s.gateways {
		for _, k := range []string{key.Key, fresh.Key} { // one cached by the gateway, one not
			a := do(t, gateway, call{path: list.path, key: k})
			require.Equal(t, string(problem.ServiceUnavailable), a.code(), "%s", a.body)
			require.Equal(t, "1", a.Header.Get("Retry-After"))
		}
		for _, path := range []string{"/docs/errors", "/account/sign-in"} { // documentation and sign-in still work
			require.Equal(t, http.StatusOK, do(t, gateway, call{path: path}).StatusCode, path)
		}
	}
	_, _, code := s.tryVerb(t, "", "accounts", "suspend", fresh.Account, "--reason", "test")
	require.Equal(t, 1, code, "a suspension that is not yet in effect must fail")

	s.redis.Start()
	for _, gateway := range s.gateways {
		eventually(t, "service resumes", func() bool { return do(t, gateway, list).StatusCode == http.StatusOK })
	}
	require.LessOrEqual(t, decided(t, s.url, list).remaining(t), 1000-5, "earlier requests still count")
	for _, gateway := range s.gateways {
		eventually(t, "the suspension takes effect", func() bool {
			return do(t, gateway, call{path: list.path, key: fresh.Key}).StatusCode == http.StatusForbidden
		})
	}
}

// TestPostgresStops checks that lists are served from memory for cached keys, that history returns
// 503 at once, and that all recovers.
func TestPostgresStops(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.fill(t, sample(t))
	key, unknown := s.issue(t, api.Developer), s.issue(t, api.Developer)
	for _, gateway := range s.gateways {
		require.Equal(t, http.StatusOK, decided(t, gateway, call{path: "/api/v1/opportunities", key: key.Key}).StatusCode)
	}

	for _, l := range s.postgres() {
		l.cut()
	}
	for _, gateway := range s.gateways {
		require.Len(t, decode[api.OpportunityList](t,
			decided(t, gateway, call{path: "/api/v1/opportunities", key: key.Key})).Data, 10)
		a := decided(t, gateway, call{path: "/api/v1/opportunities/maple-scribe", key: key.Key})
		require.Equal(t, http.StatusOK, a.StatusCode)
		a = do(t, gateway, call{path: "/api/v1/opportunities/maple-scribe/history", key: key.Key})
		require.Equal(t, string(problem.ServiceUnavailable), a.code(), "%s", a.body)
		a = do(t, gateway, call{path: "/api/v1/opportunities", key: unknown.Key})
		require.Equal(t, string(problem.ServiceUnavailable), a.code(), "the key cannot be resolved: %s", a.body)
	}
	_, _, code := s.tryVerb(t, "", "listings", "publish", "hidden-heron")
	require.Equal(t, 1, code)

	for _, l := range s.postgres() {
		l.repair()
	}
	for _, gateway := range s.gateways {
		eventually(t, "history recovers", func() bool {
			return do(t, gateway, call{path: "/api/v1/opportunities/maple-scribe/history",
				key: key.Key}).StatusCode == http.StatusOK
		})
		eventually(t, "unknown keys are resolved", func() bool {
			return do(t, gateway, call{path: "/api/v1/opportunities", key: unknown.Key}).StatusCode == http.StatusOK
		})
	}
}

// TestNoTokenNoEntry checks that the admin listener rejects requests without its token, and that
// public ports have no operator paths.
func TestNoTokenNoEntry(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, c := range []struct{ method, path string }{
		{http.MethodGet, "/operator/v1/accounts"}, {http.MethodPost, "/operator/v1/keys"},
		{http.MethodGet, "/operator/v1/listings/export"},
	} {
		for _, token := range []string{"", tokenBetween(peer.Gateway, peer.Authquota), "wrong"} {
			a := do(t, s.adminURL, call{method: c.method, path: c.path, key: token})
			require.Equal(t, http.StatusUnauthorized, a.StatusCode, "%s %s", c.path, token)
		}
		for _, gateway := range s.gateways { // the public side has no such path
			require.Equal(t, http.StatusNotFound,
				do(t, gateway, call{method: c.method, path: c.path, key: operatorToken}).StatusCode)
		}
	}
}
