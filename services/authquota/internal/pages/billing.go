package pages

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// Billing is the service that sells plans. One that cannot be reached is problem.Unavailable.
type Billing interface {
	Subscription(ctx context.Context, accountID string) (api.Subscription, error)
	// Checkout is where to send the browser to buy the plan that is sold.
	Checkout(ctx context.Context, want api.CheckoutRequest) (page string, err error)
	// Portal is where to send the browser to change the card and read invoices.
	Portal(ctx context.Context, want api.PortalRequest) (page string, err error)
	// Cancel makes what was bought end by itself at the end of what is paid for; Resume takes that back.
	Cancel(ctx context.Context, accountID string) (api.Subscription, error)
	Resume(ctx context.Context, accountID string) (api.Subscription, error)
}

// Wishes are what people want done about their plan, for the audit log.
type Wishes interface {
	RecordWish(ctx context.Context, accountID, action string) error
}

// processors are the origins of the payment processor's pages: the only ones but our own that a browser is sent to from here. What a form
// leads to is checked by browsers too, redirects included, hence the policy of the pages with such forms.
var processors = []string{"https://checkout.stripe.com", "https://billing.stripe.com"}

// sandbox is what the pages lie under of the processor that stands in for the real one, at our own address.
const sandbox = "/billing/sandbox/"

// mayLeaveTo reports whether an address that billing gave is one that browsers are sent to.
func (s *Site) mayLeaveTo(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	return slices.Contains(processors, u.Scheme+"://"+u.Host) || strings.HasPrefix(address, s.PublicURL+sandbox)
}
