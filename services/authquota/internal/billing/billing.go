// Package billing asks the service that sells plans.
package billing

import (
	"context"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// Client asks it at one address.
type Client struct{ peer *peer.Client }

// New makes a client of the service at base, a URL without a trailing slash.
func New(base string, tokens peer.Tokens, transport http.RoundTripper) *Client {
	return &Client{peer.New(base, tokens, transport)}
}

// Subscription is how an account's payments stand.
func (c *Client) Subscription(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Get(ctx, subscription(accountID), &s)
	return s, err
}

// Checkout is where to send a browser to buy the plan that is sold.
func (c *Client) Checkout(ctx context.Context, want api.CheckoutRequest) (page string, err error) {
	return c.page(ctx, "/internal/v1/checkouts", want)
}

// Portal is where to send a browser to change the card and read invoices.
func (c *Client) Portal(ctx context.Context, want api.PortalRequest) (page string, err error) {
	return c.page(ctx, "/internal/v1/portals", want)
}

func (c *Client) page(ctx context.Context, path string, want any) (string, error) {
	var page api.ProcessorPage
	err := c.peer.Post(ctx, path, want, &page)
	return page.URL, err
}

// Cancel makes what an account bought end by itself at the end of what is paid for.
func (c *Client) Cancel(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Post(ctx, subscription(accountID)+"/cancel", struct{}{}, &s)
	return s, err
}

// Resume takes a cancellation back.
func (c *Client) Resume(ctx context.Context, accountID string) (s api.Subscription, err error) {
	err = c.peer.Post(ctx, subscription(accountID)+"/resume", struct{}{}, &s)
	return s, err
}

func subscription(accountID string) string { return "/internal/v1/subscriptions/" + accountID }
