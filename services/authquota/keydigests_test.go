package authquota_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/services/authquota/internal/dbtx"
	keystore "opportunity.internal/services/authquota/internal/keys/store"
	usagestore "opportunity.internal/services/authquota/internal/usage/store"
)

func (s *service) keyDigests(after api.KeyPosition) api.KeyDigests {
	s.t.Helper()
	path := "/internal/v1/key-digests"
	if after.Sequence > 0 {
		path += fmt.Sprintf("?after=%d&digest=%s", after.Sequence, after.Digest)
	}
	return read[api.KeyDigests](s.do(http.MethodGet, path, nil))
}

// shortened returns the shortened digest of a key, as gateways cache it.
func shortened(t *testing.T, key string) string {
	t.Helper()
	parsed, ok := apikey.Parse(key)
	require.True(t, ok)
	return parsed.Digests([][]byte{pepper})[0][:api.KeyDigestLength]
}

func TestKeyDigestsAreThoseOfAllKeysInOrder(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		require.Empty(t, svc.keyDigests(api.KeyPosition{}).Digests)
		a, b := svc.issue(nil), svc.issue(nil)
		svc.revoke(a.ID)
		page := svc.keyDigests(api.KeyPosition{})
		require.Equal(t, []string{shortened(t, a.Key), shortened(t, b.Key)}, page.Digests, "revoked keys are known keys")
		require.Equal(t, api.KeyPosition{Sequence: 2, Digest: shortened(t, b.Key)}, page.Last)
		require.False(t, page.More)

		next := svc.keyDigests(page.Last)
		require.Equal(t, api.KeyDigests{After: page.Last, Digests: []string{}, Last: page.Last}, next)
		svc.importKeys(olderLine(olderKey, nil))
		older := apikey.OlderOf(olderKey).Digests([][]byte{pepper})[0][:api.KeyDigestLength]
		require.Equal(t, []string{older}, svc.keyDigests(page.Last).Digests)

		for name, elsewhere := range map[string]api.KeyPosition{
			"another key at this sequence": {Sequence: 2, Digest: shortened(t, a.Key)},
			"a sequence beyond the last":   {Sequence: 99, Digest: shortened(t, b.Key)},
		} {
			all := svc.keyDigests(elsewhere)
			require.Zero(t, all.After, name)
			require.Equal(t, []string{shortened(t, a.Key), shortened(t, b.Key), older}, all.Digests, name)
		}
		require.Equal(t, http.StatusBadRequest, svc.do(http.MethodGet, "/internal/v1/key-digests?after=x", nil).status)

		kept := keystore.New(&dbtx.DB{DB: s.open(t), Now: svc.now}, usagestore.Move)
		var paged []string
		at := api.KeyPosition{}
		for more := true; more; {
			page, err := kept.KeyDigests(t.Context(), at, 1)
			require.NoError(t, err)
			require.Len(t, page.Digests, 1)
			paged, at, more = append(paged, page.Digests...), page.Last, page.More
		}
		require.Equal(t, []string{shortened(t, a.Key), shortened(t, b.Key), older}, paged)
	})
}

// A follower that continues from its last position misses no key, however transactions overlap.
func TestKeyDigestsLeaveNoGapWhileKeysAreIssued(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		const workers, each = 4, 15
		keys := make([][]string, workers)
		var issuing sync.WaitGroup
		for w := range workers {
			issuing.Go(func() {
				for range each {
					key := read[issued](svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"testing"}`)).Key
					keys[w] = append(keys[w], key)
				}
			})
		}
		done := make(chan struct{})
		go func() { issuing.Wait(); close(done) }()
		followed, at := []string{}, api.KeyPosition{}
		for issuing := true; issuing; {
			select {
			case <-done:
				issuing = false
			default:
			}
			page := svc.keyDigests(at)
			followed, at = append(followed, page.Digests...), page.Last
		}
		want := []string{}
		for _, key := range slices.Concat(keys...) {
			want = append(want, shortened(t, key))
		}
		require.ElementsMatch(t, want, followed)
	})
}
