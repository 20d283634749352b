package plan

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/services/authquota/internal/account"
)

// Billing calls the billing service.
type Billing struct{ peer *peer.Client }

// NewBilling returns a client that sends its requests with peer.
func NewBilling(peer *peer.Client) *Billing { return &Billing{peer} }

// Subscription returns the payment state of an account.
func (c *Billing) Subscription(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Get(ctx, subscriptionPath(accountID), &s)
	return s, err
}

// Checkout returns the URL of a checkout session for the plan on sale.
func (c *Billing) Checkout(ctx context.Context, want api.CheckoutRequest) (page string, err error) {
	return c.page(ctx, "/internal/v1/checkouts", want)
}

// Portal returns the URL where the customer changes the card and reads invoices.
func (c *Billing) Portal(ctx context.Context, want api.PortalRequest) (page string, err error) {
	return c.page(ctx, "/internal/v1/portals", want)
}

func (c *Billing) page(ctx context.Context, path string, want any) (string, error) {
	var page api.ProcessorPage
	err := c.peer.Post(ctx, path, want, &page)
	return page.URL, err
}

// Cancel stops the renewal of the account's subscription. It ends with the paid period.
func (c *Billing) Cancel(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Post(ctx, subscriptionPath(accountID)+"/cancel", struct{}{}, &s)
	return s, err
}

// Resume undoes Cancel.
func (c *Billing) Resume(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Post(ctx, subscriptionPath(accountID)+"/resume", struct{}{}, &s)
	return s, err
}

func subscriptionPath(accountID string) string { return "/internal/v1/subscriptions/" + accountID }

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
