package api

// Plan is an offer to consumers: a tier at a monthly price.
type Plan struct {
	Name       string
	Tier       Tier
	MonthlyUSD int // 0 if free
}

// Plans lists the plans on offer, lowest tier first.
var Plans = func() (plans []Plan) {
	for _, info := range Tiers {
		if info.Plan != "" {
			plans = append(plans, Plan{info.Plan, info.Tier, info.MonthlyUSD})
		}
	}
	return plans
}()

// SoldPlan returns the plan that billing sells: the only one with a price.
func SoldPlan() Plan { return planWith(func(p Plan) bool { return p.MonthlyUSD > 0 }) }

// HistoryPlan returns the lowest plan whose tier includes the verification history.
func HistoryPlan() Plan {
	return planWith(func(p Plan) bool { return Tiers[p.Tier.Rank()].Limits.History })
}

// AllRecordsPlan returns the lowest plan whose tier includes all records, and their changes.
func AllRecordsPlan() Plan {
	return planWith(func(p Plan) bool { return Tiers[p.Tier.Rank()].AllRecords })
}

func planWith(property func(Plan) bool) Plan {
	for _, p := range Plans {
		if property(p) {
			return p
		}
	}
	panic("no such plan") // Tiers is constant, and a test calls each function
}

// PlanOf returns the plan that includes tier t, and false if there is none.
func PlanOf(t Tier) (Plan, bool) {
	for _, p := range Plans {
		if p.Tier == t {
			return p, true
		}
	}
	return Plan{}, false
}
