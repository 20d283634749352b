package pages

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// Billing is a client of the billing service. If the service is unavailable, it returns problem.Unavailable.
type Billing interface {
	Subscription(ctx context.Context, accountID string) (api.Subscription, error)
	// Checkout returns the URL of a checkout session for the plan on sale.
	Checkout(ctx context.Context, want api.CheckoutRequest) (page string, err error)
	// Portal returns the URL where the customer changes the card and reads invoices.
	Portal(ctx context.Context, want api.PortalRequest) (page string, err error)
	// Cancel stops the renewal. The plan ends with the paid period. Resume undoes Cancel.
	Cancel(ctx context.Context, accountID string) (api.Subscription, error)
	Resume(ctx context.Context, accountID string) (api.Subscription, error)
}

// PlanActions records what people do about their plan in the audit log.
type PlanActions interface {
	RecordPlanAction(ctx context.Context, accountID, action string) error
}

// processorOrigins are the only external origins that the pages redirect to. Browsers check the target of a form including its
// redirects, so the CSP of pages with such forms names them too.
var processorOrigins = []string{"https://checkout.stripe.com", "https://billing.stripe.com"}

// sandbox is the path prefix of the payment processor's stand-in, on our own host.
const sandbox = "/billing/sandbox/"

// mayLeaveTo reports whether browsers may be redirected to an address from billing.
func (s *Site) mayLeaveTo(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	return slices.Contains(processorOrigins, u.Scheme+"://"+u.Host) || strings.HasPrefix(address, s.PublicURL+sandbox)
}
