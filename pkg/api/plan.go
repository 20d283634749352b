package api

import "slices"

// Plans lists the tiers with a plan on offer, lowest tier first.
var Plans = slices.DeleteFunc(slices.Clone(Tiers), func(t TierInfo) bool { return t.Name == "" })

// SoldPlan returns the plan that billing sells: the only one with a price.
func SoldPlan() TierInfo { return planWith(func(t TierInfo) bool { return t.MonthlyUSD > 0 }) }

// HistoryPlan returns the lowest plan whose tier includes the verification history.
func HistoryPlan() TierInfo { return planWith(func(t TierInfo) bool { return t.Limits.History }) }

// AllRecordsPlan returns the lowest plan whose tier includes all records, and their changes.
func AllRecordsPlan() TierInfo { return planWith(func(t TierInfo) bool { return t.AllRecords }) }

// planWith panics if there is no such plan. Tiers is constant, and a test calls each function.
func planWith(property func(TierInfo) bool) TierInfo { return Plans[slices.IndexFunc(Plans, property)] }

// PlanOf returns the plan that includes tier t, and false if there is none.
func PlanOf(t Tier) (TierInfo, bool) {
	rank := t.Rank()
	if rank < 0 || Tiers[rank].Name == "" {
		return TierInfo{}, false
	}
	return Tiers[rank], true
}
