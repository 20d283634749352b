package stripe

import (
	"context"
	"time"

	api "github.com/stripe/stripe-go/v86"

	contract "opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/subscription"
)

// Subscription returns the state of a subscription, derived from the subscription, its latest paid invoice and that invoice's payments. It
// returns ErrNotFound if there is no such subscription.
func (s *Stripe) Subscription(ctx context.Context, id string) (state subscription.State, err error) {
	defer s.observed("subscription", time.Now(), &err)
	product, err := s.productID(ctx)
	if err != nil {
		return state, err
	}
	p := &api.SubscriptionRetrieveParams{}
	p.AddExpand("customer")
	p.AddExpand("latest_invoice")
	sub, err := s.client.V1Subscriptions.Retrieve(ctx, id, p)
	if err != nil {
		return state, apiError("reading subscription", err)
	}
	state = subscription.State{ID: sub.ID, Account: sub.Metadata[accountMetadata], Tier: contract.BaseTier, CancelAtPeriodEnd: cancelsAtPeriodEnd(sub)}
	if sub.Customer != nil {
		state.Customer = sub.Customer.ID
		if state.Account == "" {
			state.Account = sub.Customer.Metadata[accountMetadata]
		}
	}
	if sub.Items != nil {
		for _, item := range sub.Items.Data {
			if item.Price != nil && item.Price.Product != nil && item.Price.Product.ID == product {
				state.Tier = contract.SoldPlan().Tier
			}
		}
	}
	state.PendingInvoice = pendingRenewal(sub.LatestInvoice)
	state.Ended = sub.Status == api.SubscriptionStatusCanceled || sub.Status == api.SubscriptionStatusIncompleteExpired
	invoice, err := s.latestPaidInvoice(ctx, id)
	if err != nil {
		return state, err
	}
	if invoice != nil {
		if state.Paid, err = s.payment(ctx, invoice); err != nil {
			return state, err
		}
	}
	latest := sub.LatestInvoice
	state.Failing = latest != nil && (latest.Status == api.InvoiceStatusOpen || latest.Status == api.InvoiceStatusUncollectible) &&
		latest.Attempted && (invoice == nil || latest.ID != invoice.ID)
	return state, nil
}

// cancelsAtPeriodEnd reports whether the subscription ends without another charge. One with a later end date still renews until then.
func cancelsAtPeriodEnd(sub *api.Subscription) bool {
	var period int64
	if sub.Items != nil {
		for _, item := range sub.Items.Data {
			period = max(period, item.CurrentPeriodEnd)
		}
	}
	return sub.CancelAtPeriodEnd || sub.CancelAt > 0 && sub.CancelAt <= period
}

// latestPaidInvoice returns the newest paid invoice that has an amount above zero and covers a period, or nil if there is none. Stripe lists
// the newest first.
func (s *Stripe) latestPaidInvoice(ctx context.Context, id string) (*api.Invoice, error) {
	p := &api.InvoiceListParams{Subscription: api.String(id), Status: api.String(string(api.InvoiceStatusPaid))}
	p.Limit = api.Int64(10)
	for invoice, err := range s.client.V1Invoices.List(ctx, p).All(ctx) {
		if err != nil {
			return nil, apiError("listing invoices", err)
		}
		if invoice.Total > 0 && !paidUntil(invoice).IsZero() {
			return invoice, nil
		}
	}
	return nil, nil
}

// paidUntil returns the latest period end among the invoice's subscription lines, or the zero time if it has none.
func paidUntil(invoice *api.Invoice) (until time.Time) {
	if invoice.Lines == nil {
		return until
	}
	for _, line := range invoice.Lines.Data {
		if line.Parent == nil || line.Parent.Type != api.InvoiceLineItemParentTypeSubscriptionItemDetails || line.Period == nil {
			continue
		}
		if end := time.Unix(line.Period.End, 0).UTC(); end.After(until) {
			until = end
		}
	}
	return until
}

// payment returns whether a paid invoice has been refunded or disputed. An invoice paid outside Stripe has no charges.
func (s *Stripe) payment(ctx context.Context, invoice *api.Invoice) (*subscription.Payment, error) {
	paid := &subscription.Payment{Invoice: invoice.ID, Until: paidUntil(invoice)}
	p := &api.InvoicePaymentListParams{Invoice: api.String(invoice.ID), Status: api.String("paid")}
	p.Limit = api.Int64(100)
	p.AddExpand("data.payment.payment_intent.latest_charge")
	p.AddExpand("data.payment.charge")
	var charged, refunded int64
	for payment, err := range s.client.V1InvoicePayments.List(ctx, p).All(ctx) {
		if err != nil {
			return nil, apiError("listing payments of an invoice", err)
		}
		charge := chargeOf(payment)
		if charge == nil {
			continue
		}
		charged += charge.Amount
		refunded += charge.AmountRefunded
		if charge.Disputed {
			disputed, err := s.disputed(ctx, charge.ID)
			if err != nil {
				return nil, err
			}
			paid.Disputed = paid.Disputed || disputed
		}
	}
	paid.Refunded = charged > 0 && refunded >= charged
	return paid, nil
}

func chargeOf(payment *api.InvoicePayment) *api.Charge {
	switch p := payment.Payment; {
	case p == nil:
		return nil
	case p.PaymentIntent != nil && p.PaymentIntent.LatestCharge != nil:
		return p.PaymentIntent.LatestCharge
	default:
		return p.Charge
	}
}

// disputed reports whether a charge has an open or lost dispute. A won dispute leaves the payment in place, an inquiry has not withdrawn it
// yet, and a prevented dispute was refunded instead.
func (s *Stripe) disputed(ctx context.Context, charge string) (bool, error) {
	p := &api.DisputeListParams{Charge: api.String(charge)}
	for d, err := range s.client.V1Disputes.List(ctx, p).All(ctx) {
		if err != nil {
			return false, apiError("listing disputes", err)
		}
		switch d.Status {
		case api.DisputeStatusNeedsResponse, api.DisputeStatusUnderReview, api.DisputeStatusLost:
			return true, nil
		}
	}
	return false, nil
}
