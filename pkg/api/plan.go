package api

// Plan is an offer to consumers: a tier at a monthly price.
type Plan struct {
	Name       string
	Tier       Tier
	MonthlyUSD int // 0 if free
}

// Plans lists the plans on offer, cheapest first. It is the only source of plan names and prices. The developer tier is not on offer;
// operators grant it.
var Plans = []Plan{
	{"Free", Free, 0},
	{"Business", Commercial, 29},
}

// HistoryPlan returns the cheapest plan whose tier includes the verification history.
func HistoryPlan() Plan {
	for _, p := range Plans {
		for _, t := range Tiers {
			if t.Tier == p.Tier && t.Limits.History {
				return p
			}
		}
	}
	panic("no plan includes the verification history") // Plans is constant
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
