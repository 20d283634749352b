package account_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/testkit"
)

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
			if s.TierAt(now) != best || other.TierAt(now) != best {
				t.Fatalf("%s and %s at %s, want %s", s.TierAt(now), other.TierAt(now), now, best)
			}
			if changes && !now.Before(at) {
				followed = to
				at, to, changes = s.ChangeAfter(at)
			}
			if followed != best {
				t.Fatalf("whoever follows has %s at %s, want %s", followed, now, best)
			}
		}
		if changes {
			t.Fatalf("a change to %s that nothing makes", to)
		}
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
	for _, paid := range [][]api.Entitlement{{past, soon, later, nothing}, {nothing, later, soon, past}, {soon, nothing, past, later}} {
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
