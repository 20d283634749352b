package pages

import (
	"fmt"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/chart"
)

// offer is a tier in the comparison of plans.
type offer struct {
	Name    string // of the plan, or of the tier if no plan includes it
	Price   string
	Tier    api.Tier
	Limits  api.Limits
	Current bool
}

// Records returns which records the tier includes.
func (o offer) Records() string {
	if o.Tier.AllRecords() {
		return "Every public record"
	}
	return "The free set"
}

// gains returns the improvements from one tier to another.
func gains(from, to offer) []string {
	var list []string
	more := func(what string, now, then int) {
		if then > now {
			list = append(list, fmt.Sprintf("%s %s instead of %s", chart.Count(then), what, chart.Count(now)))
		}
	}
	if from.Records() != to.Records() {
		list = append(list, "Every public record, not only the ten of the free set")
	}
	more("requests a day", from.Limits.PerDay, to.Limits.PerDay)
	more("requests in any 60 seconds", from.Limits.PerMinute, to.Limits.PerMinute)
	more("records on a page", from.Limits.PageSize, to.Limits.PageSize)
	if to.Limits.History && !from.Limits.History {
		list = append(list, "The verification history of every record")
	}
	return list
}

// planView is the data of the plan page.
type planView struct {
	Mine    offer
	Offers  []offer // lowest tier first
	Next    *offer  // the next one on sale, or nil
	Gains   []string
	Payment payment
}

func (s *Site) plan(v *visit) (view, error) {
	var shown planView
	for _, t := range api.Tiers {
		o := s.offer(t.Tier)
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
		return view{}, fmt.Errorf("account %s has the unknown tier %q", v.Person.Account, v.Person.Tier)
	}
	if shown.Next != nil {
		shown.Gains = gains(shown.Mine, *shown.Next)
	}
	shown.Payment = s.payment(v)
	return view{Template: "plan", Title: "Plan", Data: shown, Leaves: shown.Payment.Sold}, nil
}

func (s *Site) offer(t api.Tier) offer {
	o := offer{Name: strings.ToUpper(string(t[:1])) + string(t[1:]), Price: "Granted by the operator", Tier: t, Limits: s.Tiers[t]}
	if p, ok := api.PlanOf(t); ok {
		o.Name, o.Price = p.Name, "Free of charge"
		if p.MonthlyUSD > 0 {
			o.Price = fmt.Sprintf("%d USD a month", p.MonthlyUSD)
		}
	}
	return o
}
