package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
)

// A lagging replica takes over with the epochs from before a revocation, as does a Redis that loads an old snapshot. Principals that
// gateways cached under these epochs must not come back to life.
func TestRevokedKeyStaysRevokedWithOlderEpochs(t *testing.T) {
	w := newEnvironment(t)
	replicas := []replica{w.start(), w.start()}
	key, other := w.authquota.issue("acc_a", developer), w.authquota.issue("acc_b", developer)
	for _, r := range replicas {
		require.Equal(t, 200, r.get(t, key).status)
		require.Equal(t, 200, r.get(t, other).status)
	}
	ctx := context.Background()
	older := w.counters.HGetAll(ctx, counter.Epochs).Val()
	now := time.Now()
	w.authquota.change(key, func(p *api.Principal) { p.RevokedAt = &now })
	require.Equal(t, "revoked_api_key", replicas[0].get(t, key).code(t))

	w.redis.Stop()
	w.redis.Start()
	require.NoError(t, w.counters.HSet(ctx, counter.Epochs, older).Err())
	for _, r := range replicas {
		storetest.Eventually(t, "the gateway reaches Redis again", func() bool {
			status := r.get(t, key).status
			require.Contains(t, []int{401, 503}, status)
			return status == 401
		})
		require.Equal(t, 200, r.get(t, other).status)
	}
}
