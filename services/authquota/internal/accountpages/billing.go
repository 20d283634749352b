package accountpages

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/pkg/pages"
)

// processorOrigins are the only external origins that the pages redirect to. Browsers check the
// target of a form including its redirects, so the CSP of pages with such forms names them too.
var processorOrigins = []string{"https://checkout.stripe.com", "https://billing.stripe.com"}

// sandbox is the path prefix of the payment processor's stand-in, on our own host.
const sandbox = "/billing/sandbox/"

// leaveTo redirects to a page from billing. It returns an error if the page is not the payment
// processor's.
func (p *Pages) leaveTo(page string) (pages.View, error) {
	u, err := url.Parse(page)
	if err != nil || u.User != nil || u.Opaque != "" ||
		!slices.Contains(processorOrigins, u.Scheme+"://"+u.Host) && !strings.HasPrefix(page, p.PublicURL+sandbox) {
		return pages.View{}, errors.New("billing returned a URL that is not on the payment processor")
	}
	return pages.View{LeaveTo: page}, nil
}
