package stripe

import (
	"context"
	"errors"
	"net/http"

	api "github.com/stripe/stripe-go/v86"

	"opportunity.internal/pkg/problem"
)

// waiting is the id of an invoice that is a renewal and that Stripe would charge only later. It makes a renewal's invoice when the period
// before has ended, and leaves it a draft for about an hour, in which somebody may add to it. One that Stripe was told not to advance, or
// not to charge to a card, waits for a person.
func waiting(invoice *api.Invoice) string {
	if invoice == nil || invoice.BillingReason != api.InvoiceBillingReasonSubscriptionCycle || !invoice.AutoAdvance ||
		invoice.CollectionMethod != api.InvoiceCollectionMethodChargeAutomatically {
		return ""
	}
	switch {
	case invoice.Status == api.InvoiceStatusDraft:
		return invoice.ID
	case invoice.Status == api.InvoiceStatusOpen && !invoice.Attempted: // whoever finalized it has not come to charging it
		return invoice.ID
	}
	return ""
}

// Charge finalizes a draft and charges it. Once it is finalized Stripe goes on by itself, too: whatever fails here, or is declined, it
// tries again later.
func (s *Stripe) Charge(ctx context.Context, invoice string) error {
	// Under a key of its own: Stripe repeats its answer to a key for a day, an internal error too, and the draft would stay one.
	_, err := s.client.V1Invoices.FinalizeInvoice(ctx, invoice, &api.InvoiceFinalizeInvoiceParams{AutoAdvance: api.Bool(true)})
	var refused error
	if err != nil {
		refused = failure("finalize", err)
		if away := new(problem.Error); errors.As(refused, &away) {
			return refused
		}
	}
	// It is refused where somebody was quicker, and the invoice may be there to be charged. Of two that charge it at once the second gets
	// the answer of the first, so that a card is not tried twice.
	p := &api.InvoicePayParams{}
	p.SetIdempotencyKey("charge-" + digest(invoice))
	_, err = s.charges.V1Invoices.Pay(ctx, invoice, p)
	declined := new(api.Error)
	if err == nil || errors.As(err, &declined) && declined.HTTPStatusCode == http.StatusPaymentRequired {
		return nil
	}
	return errors.Join(failure("charge", err), refused)
}
