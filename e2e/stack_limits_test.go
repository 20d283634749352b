package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

// TestLimitsAreExactOverThreeGateways checks that a limit of L counts exactly L of more than L
// concurrent requests over all replicas, and that no more are admitted. If Redis takes more than
// its 200 ms for a request, it gets 503, counted or not. So a busy machine needs more requests to
// reach the limit.
func TestLimitsAreExactOverThreeGateways(t *testing.T) {
	s := newStack(t)
	for _, tier := range api.Tiers {
		t.Run(string(tier.Tier), func(t *testing.T) {
			const more = 17
			key := s.issue(t, tier.Tier)
			// another key of the same account shares its quota
			second := s.issue(t, tier.Tier, fmt.Sprintf(`"account":%q`, key.Account))
			limit := tier.Limits.PerMinute
			got := map[int]int{}
			send := func(n int, key string) {
				by, responses := s.statuses(t, n, key, listPath+"?limit=1")
				for status, count := range by {
					got[status] += count
				}
				for _, a := range responses {
					if a.StatusCode == http.StatusTooManyRequests {
						require.Equal(t, string(problem.MinuteLimitReached), a.code())
						wait := storetest.Must(strconv.Atoi(a.Header.Get("Retry-After")))(t)
						require.LessOrEqual(t, wait, 60)
					}
				}
			}
			sent := limit + more
			send(sent/2, key.Key)
			send(sent-sent/2, second.Key)
			for got[429] == 0 && sent < 3*limit { // only 503s can keep the limit from being reached
				send(more, second.Key)
				sent += more
			}
			require.Positive(t, got[429], "%v", got)
			require.Equal(t, sent, got[200]+got[429]+got[503], "%v", got)
			require.LessOrEqual(t, got[200], limit)
			require.GreaterOrEqual(t, got[200]+got[503], limit)
			// a rejected request changes no counter
			refused := decided(t, s.gateways[2], key.Key, listPath)
			require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
			require.Equal(t, tier.Limits.PerDay-limit, refused.remaining(t))
		})
	}
	for _, key := range s.redis.Client().Keys(t.Context(), "*").Val() {
		const noExpiry = time.Duration(-1) // -2: deleted meanwhile
		require.NotEqual(t, noExpiry, s.redis.Client().TTL(t.Context(), key).Val(), "%s has no time to live", key)
	}
}

// decided repeats a GET until the limits of its key are decided. A gateway waits 0.2 seconds for
// Redis, which a machine with other work may take longer for: then it responds with 503 without
// limits.
func decided(t testing.TB, gateway, key, path string) (a response) {
	t.Helper()
	eventually(t, "the limits of a call are decided", func() bool {
		a = get(t, gateway, key, path)
		return a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("X-RateLimit-Limit") != ""
	})
	return a
}

// TestChangesHoldOnTheNextRequest checks that an operator's change of a key or account applies to
// the next request at every replica, even if the replica has just served that key.
func TestChangesHoldOnTheNextRequest(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.fill(t)
	everywhere := func(key issued, path string, status int, code problem.Code) {
		t.Helper()
		for _, gateway := range s.gateways {
			a := decided(t, gateway, key.Key, path)
			require.Equal(t, status, a.StatusCode, "%s", a.body)
			require.Equal(t, string(code), a.code())
		}
	}
	key := s.issue(t, api.Commercial)
	other := verbJSON[issued](t, s.deployment, "keys", "issue", "--account", key.Account, "--use-case", "second key")
	everywhere(key, listPath, 200, "")
	everywhere(other, listPath, 200, "")

	s.verb(t, "", "accounts", "suspend", key.Account, "--reason", "test")
	everywhere(key, listPath, 403, problem.AccountSuspended)
	everywhere(other, listPath, 403, problem.AccountSuspended)
	s.verb(t, "", "accounts", "resume", key.Account, "--reason", "test")
	everywhere(key, historyPath, 200, "")

	s.verb(t, "", "accounts", "grant", key.Account, "developer")
	used := decided(t, s.url, key.Key, listPath)
	require.Equal(t, 1000-10, used.remaining(t), "a change of tier keeps the usage")

	third := s.issue(t, api.Commercial)
	everywhere(third, historyPath, 200, "")
	s.verb(t, "", "accounts", "grant", third.Account, "free")
	everywhere(third, historyPath, 402, problem.SubscriptionRequired)
	require.Equal(t, "100", decided(t, s.url, third.Key, listPath).Header.Get("X-RateLimit-Limit"))

	s.verb(t, "", "keys", "revoke", key.ID)
	everywhere(key, listPath, 401, problem.RevokedAPIKey)
	everywhere(other, listPath, 200, "")
	s.verb(t, "", "keys", "revoke", key.ID) // revoking twice is not an error

	_, errs, code := s.tryVerb(t, "", "keys", "revoke", "no-such-key")
	require.Equal(t, 1, code)
	require.NotEmpty(t, errs)
}
