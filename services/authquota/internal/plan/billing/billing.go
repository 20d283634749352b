// Package billing is a client of the billing service.
package billing

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// Client calls the billing service.
type Client struct{ peer *peer.Client }

// New returns a client that sends its requests with peer.
func New(peer *peer.Client) *Client { return &Client{peer} }

// Subscription returns the payment state of an account.
func (c *Client) Subscription(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Get(ctx, subscription(accountID), &s)
	return s, err
}

// Checkout returns the URL of a checkout session for the plan on sale.
func (c *Client) Checkout(ctx context.Context, want api.CheckoutRequest) (page string, err error) {
	return c.page(ctx, "/internal/v1/checkouts", want)
}

// Portal returns the URL where the customer changes the card and reads invoices.
func (c *Client) Portal(ctx context.Context, want api.PortalRequest) (page string, err error) {
	return c.page(ctx, "/internal/v1/portals", want)
}

func (c *Client) page(ctx context.Context, path string, want any) (string, error) {
	var page api.ProcessorPage
	err := c.peer.Post(ctx, path, want, &page)
	return page.URL, err
}

// Cancel stops the renewal of the account's subscription. It ends with the paid period.
func (c *Client) Cancel(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Post(ctx, subscription(accountID)+"/cancel", struct{}{}, &s)
	return s, err
}

// Resume undoes Cancel.
func (c *Client) Resume(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Post(ctx, subscription(accountID)+"/resume", struct{}{}, &s)
	return s, err
}

func subscription(accountID string) string { return "/internal/v1/subscriptions/" + accountID }
