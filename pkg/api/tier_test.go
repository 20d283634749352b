package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestTierTable checks the properties that code derives from the table.
func TestTierTable(t *testing.T) {
	require.Equal(t, 0, api.BaseTier.Rank(), "accounts start at the lowest tier")
	require.NotEqual(t, -1, api.ExampleTier.Rank())
	require.Equal(t, -1, api.Tier("gold").Rank())
	require.False(t, api.Tier("gold").AllRecords(), "an unknown tier has access to the free set only")
	var names []string
	for _, info := range api.Tiers {
		names = append(names, string(info.Tier))
	}
	require.ElementsMatch(t, constants(t)["Tier"], names, "each constant needs a row in api.Tiers")
	sold := 0
	for i, info := range api.Tiers {
		require.Equal(t, i, info.Tier.Rank())
		require.Equal(t, info.AllRecords, info.Tier.AllRecords())
		if info.MonthlyUSD > 0 {
			sold++
			require.Equal(t, info, api.SoldPlan())
		}
	}
	require.Equal(t, 1, sold, "billing sells exactly one plan")
	require.Equal(t, "Business", api.HistoryPlan().Name)
	_, ok := api.PlanOf(api.Developer)
	require.False(t, ok, "only operators grant the developer tier")
}
