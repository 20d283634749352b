package keys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

var testKey = keys.RequestedKey{Name: "First", UseCase: "testing", Test: true}

// storedTest is stored for a test key.
func storedTest(n int) keys.Record {
	r := stored(n)
	r.Prefix = apikey.Test
	return r
}

// An account gets one test key without an operator, however many requests it sends at the same
// time.
func TestOneTestKeyIsApprovedAutomatically(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		errs := atOnce(6, func(int) error {
			_, err := f.RequestKey(ctx, id, testKey, accepted, false)
			return err
		})
		require.Equal(t, 1, succeeded(t, errs, "cannot get another test key"))
		open, err := f.OwnRequests(ctx, id)
		require.NoError(t, err)
		require.Equal(t, keys.Approved, open[0].State)
		require.Equal(t, "auto-approve", open[0].DecidedBy)
		require.True(t, open[0].Test)
		var actor string
		require.NoError(t, f.db.Model(&accountdb.AuditRow{}).Where("action = 'key.approve'").Pluck("actor", &actor).Error)
		require.Equal(t, "auto-approve", actor)
		key, err := f.Collect(ctx, id, open[0].ID, accepted, storedTest(100))
		require.NoError(t, err)

		_, err = f.RevokeOwn(ctx, id, key.ID)
		require.NoError(t, err)
		offered, err := f.Offer(ctx, id)
		require.NoError(t, err)
		require.Equal(t, keys.Offer{Test: true}, offered, "it can be replaced")
		second, err := f.RequestKey(ctx, id, testKey, accepted, false)
		require.NoError(t, err)
		_, err = f.Collect(ctx, id, second.ID, accepted, storedTest(101))
		require.NoError(t, err)
		_, err = f.RequestKey(ctx, id, testKey, accepted, true)
		require.ErrorContains(t, err, "cannot get another test key")
		f.db.Advance(400 * 24 * time.Hour)
		offered, err = f.Offer(ctx, id)
		require.NoError(t, err)
		require.True(t, offered.Test, "the second has expired")
		live, err := f.RequestKey(ctx, id, keys.RequestedKey{Name: "x", UseCase: "x"}, accepted, false)
		require.NoError(t, err)
		require.Equal(t, keys.Pending, live.State)
	})
}

func TestWithdrawnTestKeyCanBeRequestedAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		for range 3 {
			r, err := f.RequestKey(ctx, id, testKey, accepted, false)
			require.NoError(t, err)
			require.NoError(t, f.Withdraw(ctx, id, r.ID))
		}
		offered, err := f.Offer(ctx, id)
		require.NoError(t, err)
		require.True(t, offered.Test)
	})
}

func TestTestKeysAreForTheBaseTier(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		require.NoError(t, f.db.Exec("UPDATE accounts SET tier = ?", api.Developer).Error)
		_, err := f.RequestKey(ctx, id, testKey, accepted, true)
		require.ErrorContains(t, err, "cannot get another test key")
	})
}

// An account that pays gets its first live key without an operator, and none beside it.
func TestFirstLiveKeyOfAPayingAccountIsApprovedAutomatically(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		until := f.db.Now().Add(time.Hour)
		require.NoError(t, f.db.Create(&account.EntitlementRow{AccountID: id, HolderID: id, Tier: string(api.Commercial), PaidUntil: accountdb.Micros(&until), Version: 1}).Error)
		wanted := keys.RequestedKey{Name: "Site", UseCase: "testing"}
		errs := atOnce(3, func(int) error {
			_, err := f.RequestKey(ctx, id, wanted, accepted, false)
			return err
		})
		require.Equal(t, 3, succeeded(t, errs, ""))
		open, err := f.OwnRequests(ctx, id)
		require.NoError(t, err)
		var approved []string
		for _, r := range open {
			require.Equal(t, r.State == keys.Approved, r.DecidedBy == "auto-approve")
			if r.State == keys.Approved {
				approved = append(approved, r.ID)
			} else {
				require.NoError(t, f.Withdraw(ctx, id, r.ID))
			}
		}
		require.Len(t, approved, 1)
		key, err := f.Collect(ctx, id, approved[0], accepted, stored(102))
		require.NoError(t, err)
		_, err = f.RevokeOwn(ctx, id, key.ID)
		require.NoError(t, err)
		offered, err := f.Offer(ctx, id)
		require.NoError(t, err)
		require.Equal(t, keys.Offer{Live: true}, offered, "a person who pays is never without a key")
		f.db.Advance(2 * time.Hour)
		offered, err = f.Offer(ctx, id)
		require.NoError(t, err)
		require.False(t, offered.Live, "the paid period has ended")
	})
}
