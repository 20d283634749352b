package keys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/keys"

	"opportunity.internal/pkg/api"
)

func TestKeyDigestsAreThoseOfAllKeysInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		a, first := f.issue(keys.Order{}, keys.MaxLife)
		_, second := f.issue(keys.Order{}, keys.MaxLife)
		first, second = first[:api.KeyDigestLength], second[:api.KeyDigestLength]
		require.NoError(t, f.db.Exec("UPDATE api_keys SET last_used_at = 1").Error)
		_, err := f.Revoke(ctx, "ada", a.ID, false)
		require.NoError(t, err)
		page, err := f.KeyDigests(ctx, api.KeyPosition{}, 2)
		require.NoError(t, err)
		require.Equal(t, api.KeyDigests{
			Digests: []string{first, second}, Last: api.KeyPosition{Sequence: 2, Digest: second},
		}, page, "revoked keys are known keys")
		next, err := f.KeyDigests(ctx, page.Last, 2)
		require.NoError(t, err)
		require.Equal(t, api.KeyDigests{After: page.Last, Digests: []string{}, Last: page.Last}, next)

		for name, elsewhere := range map[string]api.KeyPosition{
			"another key at this sequence": {Sequence: 2, Digest: "0123456789abcdef"},
			"a sequence beyond the last":   {Sequence: 99, Digest: second},
		} {
			all, err := f.KeyDigests(ctx, elsewhere, 2)
			require.NoError(t, err)
			require.Zero(t, all.After, name)
			require.Equal(t, []string{first, second}, all.Digests, name)
		}
		one, err := f.KeyDigests(ctx, api.KeyPosition{}, 1)
		require.NoError(t, err)
		require.True(t, one.More)
		require.Equal(t, []string{first}, one.Digests)
	})
}

func TestKeyDigestsOmitKeysThatEndedLongAgoOrUnused(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		listed := func(after api.KeyPosition) api.KeyDigests {
			page, err := f.KeyDigests(ctx, after, 9)
			require.NoError(t, err)
			return page
		}
		used, usedDigest := f.issue(keys.Order{}, keys.MaxLife)
		require.NoError(t, f.db.Exec("UPDATE api_keys SET last_used_at = 1").Error)
		_, short := f.issue(keys.Order{}, time.Hour)
		_, current := f.issue(keys.Order{}, keys.MaxLife)
		unused, unusedDigest := f.issue(keys.Order{}, keys.MaxLife)
		before := listed(api.KeyPosition{})
		for _, id := range []string{used.ID, unused.ID} {
			_, err := f.Revoke(ctx, "ada", id, false)
			require.NoError(t, err)
		}
		short, usedDigest, current = short[:api.KeyDigestLength], usedDigest[:api.KeyDigestLength], current[:api.KeyDigestLength]
		f.db.Advance(24*time.Hour - 1)
		require.Contains(t, listed(api.KeyPosition{}).Digests, unusedDigest[:api.KeyDigestLength])
		f.db.Advance(1)
		require.Equal(t, []string{usedDigest, short, current}, listed(api.KeyPosition{}).Digests)
		require.Equal(t, before.Last, listed(before.Last).After, "a position at an omitted key stays known")
		f.db.Advance(89*24*time.Hour - 1)
		require.Equal(t, []string{usedDigest, short, current}, listed(api.KeyPosition{}).Digests)
		f.db.Advance(time.Hour + 1)
		require.Equal(t, []string{current}, listed(api.KeyPosition{}).Digests)
	})
}

// A follower that continues from its last position misses no key, however transactions overlap.
func TestKeyDigestsLeaveNoGapWhileKeysAreIssued(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		const issued = 60
		done := make(chan []error)
		go func() {
			done <- atOnce(issued, func(i int) error {
				_, err := f.Issue(ctx, "ada", keys.Order{UseCase: "x", Tier: api.Free}, keys.MaxLife, stored(i))
				return err
			})
		}()
		var followed []string
		at := api.KeyPosition{}
		for issuing := true; issuing; {
			select {
			case errs := <-done:
				require.Equal(t, issued, succeeded(t, errs, ""))
				issuing = false
			default:
			}
			page, err := f.KeyDigests(ctx, at, issued)
			require.NoError(t, err)
			followed, at = append(followed, page.Digests...), page.Last
		}
		require.Len(t, followed, issued)
	})
}
