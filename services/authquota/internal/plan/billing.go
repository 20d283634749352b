package plan

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
)

// Paths of billing.
const (
	CheckoutsPath = "/internal/v1/checkouts" // of sessions to buy the plan on sale
	PortalsPath   = "/internal/v1/portals"   // where customers change the card and read invoices
)

// SubscriptionPath returns the path of billing for the payment state of an account. Below it, a
// POST to /cancel stops the renewal, and /resume undoes that.
func SubscriptionPath(accountID string) string { return "/internal/v1/subscriptions/" + accountID }

// Offer is a tier in the comparison of plans.
type Offer struct {
	Name    string // of the plan, or of the tier if no plan includes it
	Price   string
	Tier    api.Tier
	Limits  api.Limits
	Current bool
}

// OfferOf returns the offer of a tier.
func OfferOf(t api.Tier, limits account.TierTable) Offer {
	o := Offer{
		Name: strings.ToUpper(string(t[:1])) + string(t[1:]), Price: "Granted by the operator", Tier: t, Limits: limits[t],
	}
	if p, ok := api.PlanOf(t); ok {
		o.Name, o.Price = p.Name, "Free of charge"
		if p.MonthlyUSD > 0 {
			o.Price = fmt.Sprintf("%d USD a month", p.MonthlyUSD)
		}
	}
	return o
}

// Records returns which records the tier includes.
func (o Offer) Records() string {
	if o.Tier.AllRecords() {
		return "Every public record"
	}
	return "The free set"
}

// Gains returns the improvements from one tier to another.
func Gains(from, to Offer) []string {
	var list []string
	more := func(what string, now, then int) {
		if then > now {
			list = append(list, fmt.Sprintf("%s %s instead of %s", humanize.Comma(int64(then)), what,
				humanize.Comma(int64(now))))
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
