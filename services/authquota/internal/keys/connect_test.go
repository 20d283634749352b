package keys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/plan"
)

func TestConnectingMergesTheAccount(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		older, digest := f.issue(keys.Order{}, keys.MaxLife)
		f.issue(keys.Order{Account: older.Account}, keys.MaxLife)
		until := f.db.Now().AddDate(0, 1, 0)
		err := plan.NewStore(f.db.DB).Entitle(ctx, older.Account, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Renews: true, Version: 1})
		require.NoError(t, err)

		moved, err := f.Connect(ctx, id, []string{digest})
		require.NoError(t, err)
		require.Equal(t, 2, moved)
		owner, err := f.Resolve(ctx, []string{digest})
		require.NoError(t, err)
		require.Equal(t, id, owner.Account)
		own, err := f.OwnKeys(ctx, id)
		require.NoError(t, err)
		require.Equal(t, api.Commercial, own[0].TierAt(f.db.Now()), "the entitlement moves too")
		require.Equal(t, []string{"ada@example.org: Your plan is now commercial"}, f.db.TakeSubjects(t))
		moves, err := keyusage.NewStore(f.db.DB).Moves(ctx, id)
		require.NoError(t, err)
		require.Equal(t, older.Account, moves[0].From)

		_, err = f.Issue(ctx, "ada", keys.Order{Account: older.Account, UseCase: "x"}, keys.MaxLife, stored(100))
		require.ErrorContains(t, err, "merged into "+id)
		_, err = f.Connect(ctx, id, []string{digest})
		require.ErrorContains(t, err, "already belongs to your account")
	})
}

func TestUnconnectableKeysAreRejected(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, ada, bob := t.Context(), f.person("ada@example.org"), f.person("bob@example.org")
		_, own := f.issue(keys.Order{Account: bob}, keys.MaxLife)
		revoked, revokedDigest := f.issue(keys.Order{}, keys.MaxLife)
		_, err := f.Revoke(ctx, "ada", revoked.ID, false)
		require.NoError(t, err)
		_, expired := f.issue(keys.Order{}, time.Microsecond)
		f.db.Advance(time.Microsecond)
		suspended, suspendedDigest := f.issue(keys.Order{}, keys.MaxLife)
		require.NoError(t, f.db.Exec("UPDATE accounts SET suspended_at = 1 WHERE id = ?", suspended.Account).Error)
		crowd, crowdDigest := f.issue(keys.Order{}, keys.MaxLife)
		for range keys.MaxActive - 1 {
			f.issue(keys.Order{Account: crowd.Account}, keys.MaxLife)
		}
		f.issue(keys.Order{Account: ada}, keys.MaxLife)
		f.db.TakeTouched(t)
		for digest, want := range map[string]string{
			"unknown": "no key", own: "another person's account", revokedDigest: "it is revoked", expired: "it is expired",
			suspendedDigest: "suspended", crowdDigest: "comes with 5 active keys",
		} {
			_, err := f.Connect(ctx, ada, []string{digest})
			require.ErrorContains(t, err, want)
		}
		require.Empty(t, f.db.TakeTouched(t))
	})
}

func TestTwoAccountsConnectTheSameKeyAndOneWins(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		key, first := f.issue(keys.Order{}, keys.MaxLife)
		_, sibling := f.issue(keys.Order{Account: key.Account}, keys.MaxLife)
		people := []string{f.person("a@example.org"), f.person("b@example.org"), f.person("c@example.org"), f.person("d@example.org")}
		errs := atOnce(2*len(people), func(i int) error {
			_, err := f.Connect(t.Context(), people[i/2], []string{[]string{first, sibling}[i%2]})
			return err
		})
		require.Equal(t, 1, succeeded(t, errs, "already belongs"))
		winner, err := f.Resolve(t.Context(), []string{first})
		require.NoError(t, err)
		other, err := f.Resolve(t.Context(), []string{sibling})
		require.NoError(t, err)
		require.Equal(t, winner.Account, other.Account)
		require.Contains(t, people, winner.Account)
	})
}
