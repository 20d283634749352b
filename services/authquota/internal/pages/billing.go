package pages

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/site"
)

// Billing is a client of the billing service. If the service is unavailable, it returns problem.Unavailable.
type Billing interface {
	Subscriptions
	Checkouts
}

// Subscriptions reads and changes subscriptions.
type Subscriptions interface {
	Subscription(ctx context.Context, accountID string) (api.Subscription, error)
	// Cancel stops the renewal. The plan ends with the paid period. Resume undoes Cancel.
	Cancel(ctx context.Context, accountID string) (api.Subscription, error)
	Resume(ctx context.Context, accountID string) (api.Subscription, error)
}

// Checkouts opens pages of the payment processor.
type Checkouts interface {
	// Checkout returns the URL of a checkout session for the plan on sale.
	Checkout(ctx context.Context, want api.CheckoutRequest) (page string, err error)
	// Portal returns the URL where the customer changes the card and reads invoices.
	Portal(ctx context.Context, want api.PortalRequest) (page string, err error)
}

// Actions records what people do about their plan in the audit log.
type Actions interface {
	RecordPlanAction(ctx context.Context, accountID, action string) error
}

// processorOrigins are the only external origins that the pages redirect to. Browsers check the target of a form including its
// redirects, so the CSP of pages with such forms names them too.
var processorOrigins = []string{"https://checkout.stripe.com", "https://billing.stripe.com"}

// sandbox is the path prefix of the payment processor's stand-in, on our own host.
const sandbox = "/billing/sandbox/"

// leaveTo redirects to a page from billing. It returns an error if the page is not the payment processor's.
func (p *Pages) leaveTo(page string) (site.View, error) {
	u, err := url.Parse(page)
	if err != nil || u.User != nil || u.Opaque != "" ||
		!slices.Contains(processorOrigins, u.Scheme+"://"+u.Host) && !strings.HasPrefix(page, p.PublicURL+sandbox) {
		return site.View{}, errors.New("billing returned a URL that is not on the payment processor")
	}
	return site.View{LeaveTo: page}, nil
}
