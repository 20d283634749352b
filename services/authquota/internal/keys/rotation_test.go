package keys_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/migrations"
)

// A successor gets a full life of its own: 365 days, or the life that an operator set. The old key keeps working for 24 hours, but
// not past its own expiry.
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

// Keys from before the migration keep the life that their operator set, even if they were rotated under the earlier rule, which
// kept the expiry of the first key.
func TestMigrationFindsTheLifeOfEarlierKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		const day = int64(24 * time.Hour / time.Microsecond)
		require.NoError(t, f.db.Exec("INSERT INTO accounts (id, tier, created_at) VALUES ('acc_1', 'free', 1)").Error)
		for i, k := range []struct {
			id, prefix, successor string
			created, expires      int64
			replaced              any
		}{
			{"key_full", "oda_live_", "", 1, 1 + 365*day, nil},
			{"key_limited", "oda_test_", "", 1, 1 + 30*day, nil},
			{"key_second", "oda_live_", "", 1 + 20*day, 1 + 30*day, nil},
			{"key_first", "oda_live_", "key_second", 1, 1 + 21*day, 1 + 20*day},
			{"key_late", "oda_live_", "", 1 + 300*day, 1 + 365*day, nil},
			{"key_early", "oda_live_", "key_late", 1, 1 + 301*day, 1 + 300*day},
			{"key_imported", "jb-", "", 1, 1 + 40*day, nil},
			{"key_of_imported", "oda_live_", "", 1 + 5*day, 1 + 40*day, nil},
			{"key_imported_first", "jb-", "key_of_imported", 1, 1 + 6*day, 1 + 5*day},
		} {
			var successor any
			if k.successor != "" {
				successor = k.successor
			}
			require.NoError(t, f.db.Exec(`INSERT INTO api_keys (id, account_id, digest, prefix, last_four, use_case, created_at, expires_at, replaced_at, successor_id)
				VALUES (?, 'acc_1', ?, ?, 'abcd', 'x', ?, ?, ?, ?)`, k.id, fmt.Sprintf("%064x", i), k.prefix, k.created, k.expires, k.replaced, successor).Error)
		}
		file, err := fs.ReadFile(migrations.Files, "00010_key_life.sql")
		require.NoError(t, err)
		require.NoError(t, f.db.Exec(regexp.MustCompile(`(?s)WITH RECURSIVE.*?;`).FindString(string(file))).Error)
		var lives []struct {
			ID   string
			Days int64
		}
		require.NoError(t, f.db.Raw("SELECT id, life / ? AS days FROM api_keys WHERE life IS NOT NULL ORDER BY id", day).Scan(&lives).Error)
		require.Equal(t, []struct {
			ID   string
			Days int64
		}{{"key_limited", 30}, {"key_second", 30}}, lives)
	})
}
