package api

// Plan is what an account pays for, and the tier that it gets for it.
type Plan struct {
	Name       string
	Tier       Tier
	MonthlyUSD int // 0: costs nothing
}

// Plans are the plans on offer, cheapest first: the one place where names and prices stand. The developer tier is none of them: an
// operator grants it.
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
	panic("no plan includes the verification history") // a table of this package
}

// PlanOf is the plan that gives a tier, and whether there is one.
func PlanOf(t Tier) (Plan, bool) {
	for _, p := range Plans {
		if p.Tier == t {
			return p, true
		}
	}
	return Plan{}, false
}
