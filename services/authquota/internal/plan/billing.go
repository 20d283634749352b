package plan

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
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
