package stripe

import (
	"context"
	"errors"
	"net/http"
	"time"

	api "github.com/stripe/stripe-go/v86"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/subscription"
)

// pendingRenewal returns the id of a renewal invoice that Stripe will charge later on its own, or
// "" if invoice is not one. Stripe creates the invoice when the previous period ends and leaves it
// a draft for about an hour, so that items can be added. Invoices that do not advance automatically
// or are not charged to a card are left to the operator.
func pendingRenewal(invoice *api.Invoice) string {
	if invoice == nil || invoice.BillingReason != api.InvoiceBillingReasonSubscriptionCycle || !invoice.AutoAdvance ||
		invoice.CollectionMethod != api.InvoiceCollectionMethodChargeAutomatically {
		return ""
	}
	switch {
	case invoice.Status == api.InvoiceStatusDraft:
		return invoice.ID
	case invoice.Status == api.InvoiceStatusOpen && !invoice.Attempted: // finalized but not charged yet
		return invoice.ID
	}
	return ""
}

// chargeable reports whether billing should charge the pending renewal of a subscription now. A
// cancelled subscription is left to Stripe.
func chargeable(s subscription.State) bool {
	return s.Account != "" && s.IsPlan() && !s.Ended && !s.CancelAtPeriodEnd
}

// chargeRenewal returns an error only if Stripe is unavailable, so that the event is sent again. If
// Stripe rejects the charge, for example because the API key lacks the permission, it would reject
// it every time, and failing the event would delay Stripe's own charge further. That case is only
// logged.
func (s *Stripe) chargeRenewal(ctx context.Context, of subscription.State, invoice string) error {
	err := s.charge(ctx, invoice)
	if unavailable := new(problem.Error); err == nil || errors.As(err, &unavailable) {
		return err
	}
	s.log.ErrorContext(ctx, "renewal charge rejected, left to the processor",
		"account_id", of.Account, "subscription_id", of.ID, "error", err.Error())
	return nil
}

// charge finalizes a draft invoice and charges it. A declined card is not an error; it shows in the
// state of the subscription. A finalized invoice also advances on its own: Stripe retries a charge
// that fails here.
func (s *Stripe) charge(ctx context.Context, invoice string) (err error) {
	defer s.observed("charge", time.Now(), &err)
	// No fixed idempotency key: Stripe replays the response to a key for a day, even an internal
	// error, and the invoice would stay a draft.
	_, err = s.client.V1Invoices.FinalizeInvoice(ctx, invoice,
		&api.InvoiceFinalizeInvoiceParams{AutoAdvance: api.Bool(true)})
	var finalizeErr error
	if err != nil {
		finalizeErr = apiError("finalizing the invoice", err)
		if unavailable := new(problem.Error); errors.As(finalizeErr, &unavailable) {
			return finalizeErr
		}
	}
	// Finalizing fails if the invoice was finalized concurrently; it can still be charged. The
	// idempotency key makes concurrent charges share one response, so that a card is not charged
	// twice.
	p := &api.InvoicePayParams{}
	p.SetIdempotencyKey("charge-" + digest(invoice))
	_, err = s.charges.V1Invoices.Pay(ctx, invoice, p)
	declined := new(api.Error)
	if err == nil || errors.As(err, &declined) && declined.HTTPStatusCode == http.StatusPaymentRequired {
		return nil
	}
	return errors.Join(apiError("charging the invoice", err), finalizeErr)
}
