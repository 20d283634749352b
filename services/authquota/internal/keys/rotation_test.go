package keys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
)

// A successor gets a full life of its own: 365 days, or the life that an operator set. The old key
// keeps working for 24 hours, but not past its own expiry.
func TestSuccessorHasAFullLifeOfItsOwn(t *testing.T) {
	const day = 24 * time.Hour
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		limited, _ := f.issue(keys.Order{Account: id}, 30*day)
		full, _ := f.issue(keys.Order{Account: id}, keys.MaxLife)
		lives := map[string]time.Duration{limited.ID: 30 * day, full.ID: keys.MaxLife}
		f.db.TakeTouched(t)
		for round := range 3 { // the life stays with every successor
			f.db.Advance(29*day + 23*time.Hour) // one hour before the shorter ends
			next := map[string]time.Duration{}
			for key, life := range lives {
				before, err := f.OwnKey(ctx, id, key)
				require.NoError(t, err)
				successor, old, err := f.Rotate(ctx, id, key, stored(100+10*round+len(next)))
				require.NoError(t, err)
				require.Equal(t, f.db.Now().Add(life), successor.ExpiresAt)
				require.Equal(t, f.db.Now().Add(min(day, before.ExpiresAt.Sub(f.db.Now()))), old.ExpiresAt)
				next[successor.ID] = life
			}
			lives = next
		}
		require.Equal(t, []string{id, id, id, id, id, id}, f.db.TakeTouched(t))
	})
}

func TestKeyIsRotatedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		key, _ := f.issue(keys.Order{Account: id}, keys.MaxLife)
		errs := atOnce(6, func(i int) error {
			_, _, err := f.Rotate(ctx, id, key.ID, stored(100+i))
			return err
		})
		require.Equal(t, 1, succeeded(t, errs, "already rotated"))
		_, _, err := f.Rotate(ctx, account.NewID(), key.ID, stored(200))
		require.ErrorContains(t, err, "no account")
	})
}

// Otherwise an account could have any number of keys, all but one in their grace periods.
func TestSuccessorIsRotatedOnceItsPredecessorHasEnded(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		first, _ := f.issue(keys.Order{Account: id}, keys.MaxLife)
		second, _, err := f.Rotate(ctx, id, first.ID, stored(100))
		require.NoError(t, err)
		_, _, err = f.Rotate(ctx, id, second.ID, stored(101))
		require.ErrorContains(t, err, "Revoke the old one first")
		_, err = f.RevokeOwn(ctx, id, first.ID)
		require.NoError(t, err)
		third, _, err := f.Rotate(ctx, id, second.ID, stored(101))
		require.NoError(t, err)
		f.db.Advance(keys.Grace - time.Microsecond)
		_, _, err = f.Rotate(ctx, id, third.ID, stored(102))
		require.ErrorContains(t, err, "Revoke the old one first")
		f.db.Advance(time.Microsecond)
		_, _, err = f.Rotate(ctx, id, third.ID, stored(102))
		require.NoError(t, err)
	})
}

// A replaced key in its grace period does not count towards the limit.
func TestFiveKeysCanBeRotated(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		for i := range keys.MaxActive {
			key, _ := f.issue(keys.Order{Account: id}, keys.MaxLife)
			_, _, err := f.Rotate(ctx, id, key.ID, stored(100+i))
			require.NoError(t, err)
		}
		active, err := f.ActiveKeys(ctx, []string{id})
		require.NoError(t, err)
		require.Equal(t, map[string]int{id: keys.MaxActive}, active)
	})
}
