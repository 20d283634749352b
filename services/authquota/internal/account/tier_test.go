package account_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
)

func TestWithoutOverridesTheContractHolds(t *testing.T) {
	for _, overrides := range []string{"", "  "} {
		table, err := account.ParseTiers(overrides)
		require.NoError(t, err)
		require.Len(t, table, len(api.Tiers))
		for _, want := range api.Tiers {
			require.Equal(t, want.Limits, table[want.Tier])
		}
	}
}

func TestOverrides(t *testing.T) {
	table, err := account.ParseTiers("developer=120/5000/100, free=1/1/1")
	require.NoError(t, err)
	require.Equal(t, api.Limits{PerMinute: 120, PerDay: 5000, PageSize: 100, History: true}, table[api.Developer])
	require.Equal(t, api.Limits{PerMinute: 1, PerDay: 1, PageSize: 1, History: false}, table[api.Free], "history is no figure")
	require.Equal(t, 300, table[api.Commercial].PerMinute, "not named, not changed")
}

func TestMistakes(t *testing.T) {
	for overrides, words := range map[string][]string{
		"gold=1/1/1":                       {`"gold" is not a tier`},
		"Free=1/1/1":                       {`"Free" is not a tier`},
		"free":                             {"free", "per minute/per day/page size"},
		"free=10/100":                      {"free", "per minute/per day/page size"},
		"free=10/100/10/1":                 {"per minute/per day/page size"},
		"free=0/100/10":                    {"per minute", "1 to 10000"},
		"free=10001/100/10":                {"per minute", "1 to 10000"},
		"free=10/-1/10":                    {"per day"},
		"free=10/1e3/10":                   {"per day"},
		"free=10/100/101":                  {"page size", "1 to 100"},
		"free=10/100/10,free=10/100/10":    {"free appears twice"},
		"free=10/100/10,":                  {`"" is not a tier`},
		"gold=1/1/1,free=x/1/1,developer=": {"gold", "free: per minute", "developer"},
	} {
		t.Run(overrides, func(t *testing.T) {
			_, err := account.ParseTiers(overrides)
			for _, w := range words {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

func TestListKeepsTheOrderOfTiers(t *testing.T) {
	table, err := account.ParseTiers("developer=1/2/3")
	require.NoError(t, err)
	want := api.DefaultLimits()
	want[1].Limits.PerMinute, want[1].Limits.PerDay, want[1].Limits.PageSize = 1, 2, 3
	require.Equal(t, want, table.List())
}
