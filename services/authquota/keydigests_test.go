package authquota_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/service/servicetest"
)

func (s *service) keyDigests(after api.KeyPosition) api.KeyDigests {
	s.t.Helper()
	path := "/internal/v1/key-digests"
	if after.Sequence > 0 {
		path += fmt.Sprintf("?after=%d&digest=%s", after.Sequence, after.Digest)
	}
	return servicetest.Read[api.KeyDigests](s.do(http.MethodGet, path, nil))
}

// shortened returns the shortened digest of a key, as gateways cache it.
func shortened(t *testing.T, key string) string {
	t.Helper()
	parsed, ok := apikey.Parse(key)
	require.True(t, ok)
	return parsed.Digests([][]byte{pepper})[0][:api.KeyDigestLength]
}

func TestKeyDigestsAreListedForGateways(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		require.Empty(t, svc.keyDigests(api.KeyPosition{}).Digests)
		key := svc.issue(nil)
		page := svc.keyDigests(api.KeyPosition{})
		require.Equal(t, []string{shortened(t, key.Key)}, page.Digests)
		svc.importKeys(olderLine(olderKey, nil))
		older := apikey.OlderOf(olderKey).Digests([][]byte{pepper})[0][:api.KeyDigestLength]
		require.Equal(t, []string{older}, svc.keyDigests(page.Last).Digests)
		require.Equal(t, http.StatusBadRequest, svc.do(http.MethodGet, "/internal/v1/key-digests?after=x", nil).Status)
	})
}
