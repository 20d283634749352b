package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// TestRedisStops checks that without Redis every request is rejected with 503, not as a problem of
// the key, and that service resumes automatically with the earlier usage intact.
func TestRedisStops(t *testing.T) {
	s := newStack(t)
	key := s.issue(t, api.Developer)
	require.Equal(t, http.StatusOK, decided(t, s.url, key.Key, listPath).StatusCode)
	s.usedToday(t, key.Account, 1)
	fresh := s.issue(t, api.Developer)

	s.redis.Stop()
	for _, gateway := range s.gateways {
		for _, k := range []string{key.Key, fresh.Key} { // one cached by the gateway, one not
			a := get(t, gateway, k, listPath)
			require.Equal(t, string(problem.ServiceUnavailable), a.code(), "%s", a.body)
			require.Equal(t, "1", a.Header.Get("Retry-After"))
		}
		for _, path := range []string{"/docs/errors", "/account/sign-in"} { // documentation and sign-in still work
			require.Equal(t, http.StatusOK, get(t, gateway, "", path).StatusCode, path)
		}
	}
	_, _, code := s.tryVerb(t, "", "accounts", "suspend", fresh.Account, "--reason", "test")
	require.Equal(t, 1, code, "a suspension that is not yet in effect must fail")

	s.redis.Start()
	for _, gateway := range s.gateways {
		eventually(t, "service resumes", func() bool { return get(t, gateway, key.Key, listPath).StatusCode == http.StatusOK })
	}
	require.LessOrEqual(t, decided(t, s.url, key.Key, listPath).remaining(t), 1000-5, "earlier requests still count")
	for _, gateway := range s.gateways {
		eventually(t, "the suspension takes effect", func() bool {
			return get(t, gateway, fresh.Key, listPath).StatusCode == http.StatusForbidden
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
	s.knows(t, key)

	for _, l := range s.postgres() {
		l.cut()
	}
	for _, gateway := range s.gateways {
		require.Len(t, decode[api.OpportunityList](t, decided(t, gateway, key.Key, listPath)).Data, 10)
		a := decided(t, gateway, key.Key, recordPath)
		require.Equal(t, http.StatusOK, a.StatusCode)
		a = get(t, gateway, key.Key, historyPath)
		require.Equal(t, string(problem.ServiceUnavailable), a.code(), "%s", a.body)
		a = get(t, gateway, unknown.Key, listPath)
		require.Equal(t, string(problem.ServiceUnavailable), a.code(), "the key cannot be resolved: %s", a.body)
	}
	_, _, code := s.tryVerb(t, "", "listings", "publish", "hidden-heron")
	require.Equal(t, 1, code)

	for _, l := range s.postgres() {
		l.repair()
	}
	for _, gateway := range s.gateways {
		eventually(t, "history recovers", func() bool {
			return get(t, gateway, key.Key, historyPath).StatusCode == http.StatusOK
		})
		eventually(t, "unknown keys are resolved", func() bool {
			return get(t, gateway, unknown.Key, listPath).StatusCode == http.StatusOK
		})
	}
}
