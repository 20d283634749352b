package accountpages

import (
	"fmt"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/plan"
)

// planView is the data of the plan page.
type planView struct {
	Mine    plan.Offer
	Offers  []plan.Offer // lowest tier first
	Next    *plan.Offer  // the next one on sale, or nil
	Gains   []string
	Payment payment
}

func (p *Pages) plan(v *Visit) (pages.View, error) {
	var shown planView
	for _, t := range api.Tiers {
		o := plan.OfferOf(t.Tier, p.Tiers)
		o.Current = t.Tier == v.Person.Tier
		shown.Offers = append(shown.Offers, o)
	}
	for _, o := range shown.Offers {
		_, bought := api.PlanOf(o.Tier)
		switch {
		case o.Current:
			shown.Mine = o
		case shown.Mine.Tier != "" && bought && shown.Next == nil:
			shown.Next = &o
		}
	}
	if shown.Mine.Tier == "" {
		return pages.View{}, fmt.Errorf("account %s has the unknown tier %q", v.Person.Account, v.Person.Tier)
	}
	if shown.Next != nil {
		shown.Gains = plan.Gains(shown.Mine, *shown.Next)
	}
	shown.Payment = p.payment(v)
	page := pages.View{Template: "plan", Title: "Plan", Data: shown}
	if shown.Payment.Sold {
		page.FormsTo = processorOrigins
	}
	if shown.Payment.State() == "unconfirmed" { // it is confirmed within seconds
		page.Header = http.Header{"Refresh": {"3"}}
	}
	return page, nil
}
