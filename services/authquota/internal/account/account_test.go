package account_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestIDsAreKnownUniqueAndInOrder(t *testing.T) {
	last := ""
	for range 1000 {
		id := account.NewID()
		require.NoError(t, accountdb.CheckID("account", id))
		require.Greater(t, id, last)
		last = id
		require.NoError(t, accountdb.CheckID("key", keys.NewID()))
	}
	require.Error(t, accountdb.CheckID("account", keys.NewID()), "the two kinds cannot be confused")
	require.Error(t, accountdb.CheckID("key", account.NewID()))
}

// Repeating a change has no effect, and a change is recorded exactly if it has one.
func TestChangesAreIdempotent(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		a := account.Account{ID: account.NewID(), Standing: account.Standing{Granted: api.Free}}
		for i := range rapid.IntRange(1, 12).Draw(t, "acts") {
			at := now.Add(time.Duration(i) * time.Hour)
			reason := rapid.SampledFrom([]string{"abuse", "unpaid", api.ReasonNotStated}).Draw(t, "reason")
			change := rapid.SampledFrom([]account.Change{
				storetest.Must(account.Suspend(reason))(t), storetest.Must(account.Resume("why"))(t),
				storetest.Must(account.Grant(rapid.SampledFrom(api.Tiers).Draw(t, "tier").Tier))(t),
			}).Draw(t, "change")
			before := a
			require.Equal(t, change.Apply(&a, at) == nil, reflect.DeepEqual(a, before), "%v became %v", before, a)
			once := a
			require.Nil(t, change.Apply(&a, at.Add(time.Minute)), change.Action)
			require.Equal(t, once, a)
		}
	})
}

func TestReasonOfASuspensionCanBeStatedLater(t *testing.T) {
	var a account.Account
	first := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	suspend := func(reason string) map[string]any {
		change := storetest.Must(account.Suspend(reason))(t)
		return change.Apply(&a, first.Add(time.Duration(len(a.SuspendReason))*time.Hour))
	}
	require.Equal(t, map[string]any{"reason": api.ReasonNotStated}, suspend(api.ReasonNotStated))
	require.Equal(t, map[string]any{"reason": "abuse", "before": api.ReasonNotStated}, suspend("abuse"))
	require.Nil(t, suspend(api.ReasonNotStated), "a stated reason is kept")
	require.Equal(t, "abuse", a.SuspendReason)
	require.Equal(t, first, *a.SuspendedAt)
}

var rank = map[api.Tier]int{api.Free: 0, api.Developer: 1, api.Commercial: 2}

// At each time the tier is the best of those in effect, in whatever order they are listed.
// Following ChangeAfter gives the same tier at each time as computing it again.
func TestTierIsTheBestInEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := account.Standing{
			Granted: rapid.SampledFrom([]api.Tier{api.Free, api.Developer, api.Commercial}).Draw(t, "granted"),
			Paid:    rapid.SliceOfN(rapid.Custom(testkit.Entitlement), 0, 4).Draw(t, "paid"),
		}
		other := account.Standing{Granted: s.Granted, Paid: rapid.Permutation(s.Paid).Draw(t, "order")}
		followed := s.TierAt(*testkit.Minutes(-1))
		at, to, changes := s.ChangeAfter(*testkit.Minutes(-1))
		for half := range 22 { // every relevant time, and one between it and the next
			now := testkit.Noon.Add(time.Duration(half-1) * 30 * time.Second)
			best := s.Granted
			for _, e := range s.Paid {
				if e.PaidUntil != nil && now.Before(*e.PaidUntil) && rank[e.Tier] > rank[best] {
					best = e.Tier
				}
			}
			require.Equal(t, best, s.TierAt(now), now)
			require.Equal(t, best, other.TierAt(now), now)
			if changes && !now.Before(at) {
				followed = to
				at, to, changes = s.ChangeAfter(at)
			}
			require.Equal(t, best, followed, "by ChangeAfter at %s", now)
		}
		require.False(t, changes, "a change to %s that nothing makes", to)
	})
}

func TestPaidAtReturnsMostRelevantEntitlement(t *testing.T) {
	none := account.Standing{Granted: api.Free}
	require.Nil(t, none.PaidAt(testkit.Noon))
	require.False(t, none.Pays(testkit.Noon))
	past := api.Entitlement{Tier: api.Commercial, PaidUntil: testkit.Minutes(0), Version: 1, Renews: true}
	soon := api.Entitlement{Tier: api.Commercial, PaidUntil: testkit.Minutes(1), Version: 2}
	later := api.Entitlement{Tier: api.Commercial, PaidUntil: testkit.Minutes(2), Version: 3}
	nothing := api.Entitlement{Tier: api.Free, Version: 4}
	for _, paid := range [][]api.Entitlement{{past, soon, later, nothing}, {nothing, later, soon, past},
		{soon, nothing, past, later}} {
		s := account.Standing{Paid: paid}
		require.Equal(t, later, *s.PaidAt(testkit.Noon))
		require.True(t, s.Pays(testkit.Noon))
	}
	require.Equal(t, past, *account.Standing{Paid: []api.Entitlement{nothing, past}}.PaidAt(testkit.Noon))
	for _, e := range []api.Entitlement{past, soon} {
		require.True(t, account.Standing{Paid: []api.Entitlement{nothing, e}}.Pays(testkit.Noon))
	}
	require.False(t, account.Standing{Paid: []api.Entitlement{nothing, soon}}.Pays(*testkit.Minutes(1)))
	require.Equal(t, nothing, *account.Standing{Paid: []api.Entitlement{nothing}}.PaidAt(testkit.Noon))
}

func TestOverrides(t *testing.T) {
	require.Equal(t, api.DefaultLimits(), storetest.Must(account.ParseTiers("  "))(t).List())
	table := storetest.Must(account.ParseTiers("developer=120/5000/100, free=1/1/1"))(t)
	want := api.DefaultLimits()
	want[0].Limits = api.Limits{PerMinute: 1, PerDay: 1, PageSize: 1}
	want[1].Limits = api.Limits{PerMinute: 120, PerDay: 5000, PageSize: 100, History: true}
	require.Equal(t, want, table.List(), "history is no figure; other tiers keep theirs")
}

func TestMistakes(t *testing.T) {
	for overrides, words := range map[string]string{
		"gold=1/1/1": `"gold" is not a tier`, "Free=1/1/1": `"Free" is not a tier`, "free=10/100/10,": `"" is not a tier`,
		"free": "per minute/per day/page size", "free=10/100/10/1": "per minute/per day/page size",
		"free=0/100/10": "free: per minute must be an integer from 1 to 10000", "free=10001/100/10": "per minute",
		"free=10/-1/10": "per day", "free=10/1e3/10": "per day", "free=10/100/101": "page size must be an integer from 1 to 100",
		"free=10/100/10,free=10/100/10": "free appears twice", "gold=1/1/1,free=x/1/1": "free: per minute",
	} {
		require.ErrorContains(t, storetest.Err(account.ParseTiers(overrides)), words, overrides)
	}
}
