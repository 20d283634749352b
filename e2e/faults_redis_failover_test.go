package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest/redistest"
)

// TestFaultsRedisFailover kills a Redis primary whose replica lags, so that Sentinels promote the
// replica. It lacks a revocation, and all calls of an account that used up its limit within the
// lag.
func TestFaultsRedisFailover(t *testing.T) {
	t.Parallel()
	row := newResult(t, "Redis primary is killed, Sentinels promote a replica that lags",
		"over-grant at most the calls within the lag; a key revoked within it never gets 200; normal without a repair")
	const limit = 20 // of a free account
	primary := redistest.Start(t)
	replica := primary.Replica()
	s, readers := newStackWithReaders(t, parts{redis: redistest.SentinelURL(primary.Sentinels(3, 3*time.Second))})
	revoked, greedy := s.issue(t, api.Commercial), s.issue(t, api.Free)
	s.knows(t, revoked)
	honest := s.send(t, rate(), readers)
	honest.succeeds()

	detached := time.Now()
	replica.Detach()
	flood := s.send(t, rate(), []caller{{kind: listCall, path: listPath, keys: []issued{greedy}}})
	s.verb(t, "", "keys", "revoke", revoked.ID)
	revocation := time.Now()
	honest.next(rate())
	lost := time.Now()
	primary.Stop()
	// The first calls since the revocation: until now the gateways have no reason to look the key
	// up again.
	victim := s.send(t, rate(), []caller{{kind: listCall, path: listPath, keys: []issued{revoked}}})
	back := honest.succeeds()
	honest.next(duration())
	require.True(t, replica.IsPrimary())
	all, withoutKey, flooded := honest.end(), victim.end(), flood.end()

	require.NotEmpty(t, between(withoutKey, listCall, back, time.Now()))
	for _, c := range withoutKey {
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusServiceUnavailable}, c.status,
			"%s after the revocation", c.from.Sub(revocation))
	}
	inLag := counts(between(flooded, listCall, detached, lost))[http.StatusOK]
	most := mostIn(flooded, time.Minute)
	require.LessOrEqual(t, most, limit+inLag, "calls of an account within 60 s")
	unavailable, normal := 0, lost
	for _, c := range all {
		if c.from.Before(lost) || c.status == http.StatusOK {
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, c.status, c.kind)
		unavailable++
		if c.to.After(normal) {
			normal = c.to
		}
	}
	row.set("normal after %.1f s, %d calls got 503; lag %.1f s, %d calls within it, %d of an account with a limit of %d within 60 s; 0 of %d with the revoked key got 200",
		normal.Sub(lost).Seconds(), unavailable, lost.Sub(detached).Seconds(), inLag, most, limit, len(withoutKey))
}
