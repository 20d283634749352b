package keys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/keys"
)

var testKey = keys.RequestedKey{Name: "First", UseCase: "testing", Test: true}

// An account gets one test key without an operator, however many requests it sends at the same time.
func TestOneTestKeyIsApprovedAutomatically(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		errs := atOnce(6, func(int) error {
			_, err := f.RequestKey(ctx, id, testKey, accepted, false)
			return err
		})
		require.Equal(t, 1, succeeded(t, errs, "cannot get a test key"))
		open, err := f.OwnRequests(ctx, id)
		require.NoError(t, err)
		require.Equal(t, keys.Approved, open[0].State)
		require.Equal(t, "auto-approve", open[0].DecidedBy)
		require.True(t, open[0].Test)
		var actor string
		require.NoError(t, f.db.Model(&dbtx.AuditRow{}).Where("action = 'key.approve'").Pluck("actor", &actor).Error)
		require.Equal(t, "auto-approve", actor)
		key, err := f.Collect(ctx, id, open[0].ID, accepted, stored(100))
		require.NoError(t, err)

		_, err = f.RevokeOwn(ctx, id, key.ID)
		require.NoError(t, err)
		f.db.Advance(400 * 24 * time.Hour)
		_, err = f.RequestKey(ctx, id, testKey, accepted, true)
		require.ErrorContains(t, err, "cannot get a test key", "also after the first one has ended")
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
		had, err := f.HadTestKey(ctx, id)
		require.NoError(t, err)
		require.False(t, had)
	})
}

func TestTestKeysAreForTheBaseTier(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		require.NoError(t, f.db.Exec("UPDATE accounts SET tier = ?", api.Developer).Error)
		_, err := f.RequestKey(ctx, id, testKey, accepted, true)
		require.ErrorContains(t, err, "cannot get a test key")
	})
}
