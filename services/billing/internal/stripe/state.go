package stripe

import (
	"cmp"
	"context"
	"time"

	api "github.com/stripe/stripe-go/v86"

	contract "opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/subscription"
)

// Subscription returns the state of a subscription. A renewal invoice that Stripe would only charge
// later is charged first, because the paid period is already over.
func (s *Stripe) Subscription(ctx context.Context, id string) (subscription.State, error) {
	state, pending, err := s.read(ctx, id)
	if err != nil || pending == "" || !chargeable(state) {
		return state, err
	}
	if err := s.chargeRenewal(ctx, state, pending); err != nil {
		return state, err
	}
	state, _, err = s.read(ctx, id)
	return state, err
}

// read derives the state of a subscription from the subscription, its latest paid invoice and that
// invoice's payments. It also returns the id of its pending renewal invoice, if there is one.
func (s *Stripe) read(ctx context.Context, id string) (state subscription.State, pending string, err error) {
	defer s.observed("subscription", time.Now(), &err)
	product, err := s.productID(ctx)
	if err != nil {
		return state, "", err
	}
	p := &api.SubscriptionRetrieveParams{}
	p.AddExpand("customer")
	p.AddExpand("latest_invoice")
	sub, err := s.client.V1Subscriptions.Retrieve(ctx, id, p)
	if err != nil {
		return state, "", apiError("reading subscription", err)
	}
	state = subscription.State{ID: sub.ID, Account: accountOf(sub), Tier: contract.BaseTier}
	if sub.Customer != nil {
		state.Customer = sub.Customer.ID
	}
	var period int64
	items, err := s.items(ctx, sub)
	if err != nil {
		return state, "", err
	}
	for _, item := range items {
		period = max(period, item.CurrentPeriodEnd)
		if item.Price != nil && item.Price.Product != nil && item.Price.Product.ID == product {
			state.Tier = contract.SoldPlan().Tier
		}
	}
	// One with a later end date still renews until then.
	state.CancelAtPeriodEnd = sub.CancelAtPeriodEnd || sub.CancelAt > 0 && sub.CancelAt <= period
	state.Ended = sub.Status == api.SubscriptionStatusCanceled || sub.Status == api.SubscriptionStatusIncompleteExpired
	state.Paid, err = s.latestPayment(ctx, id)
	if err != nil {
		return state, "", err
	}
	latest := sub.LatestInvoice
	state.Failing = latest != nil &&
		(latest.Status == api.InvoiceStatusOpen || latest.Status == api.InvoiceStatusUncollectible) &&
		latest.Attempted && (state.Paid == nil || latest.ID != state.Paid.Invoice)
	return state, pendingRenewal(latest), nil
}

// items returns the items of a subscription, which contains only the first ten.
func (s *Stripe) items(ctx context.Context, sub *api.Subscription) ([]*api.SubscriptionItem, error) {
	if sub.Items == nil || !sub.Items.HasMore {
		return cmp.Or(sub.Items, &api.SubscriptionItemList{}).Data, nil
	}
	p := &api.SubscriptionItemListParams{Subscription: api.String(sub.ID)}
	p.Limit = api.Int64(100)
	return all(s.client.V1SubscriptionItems.List(ctx, p).All(ctx), "listing items of a subscription")
}

// lines returns the lines of an invoice, which contains only the first ten.
func (s *Stripe) lines(ctx context.Context, invoice *api.Invoice) ([]*api.InvoiceLineItem, error) {
	if invoice.Lines == nil || !invoice.Lines.HasMore {
		return cmp.Or(invoice.Lines, &api.InvoiceLineItemList{}).Data, nil
	}
	p := &api.InvoiceListLinesParams{Invoice: api.String(invoice.ID)}
	p.Limit = api.Int64(100)
	return all(s.client.V1Invoices.ListLines(ctx, p).All(ctx), "listing lines of an invoice")
}

func all[T any](pages api.Seq2[T, error], operation string) (found []T, err error) {
	for item, err := range pages {
		if err != nil {
			return nil, apiError(operation, err)
		}
		found = append(found, item)
	}
	return found, nil
}

// latestPayment returns the payment of the newest paid invoice that has an amount above zero and
// covers a period, or nil if there is none. Stripe lists the newest first.
func (s *Stripe) latestPayment(ctx context.Context, id string) (*subscription.Payment, error) {
	p := &api.InvoiceListParams{Subscription: api.String(id), Status: api.String(string(api.InvoiceStatusPaid))}
	p.Limit = api.Int64(10)
	for invoice, err := range s.client.V1Invoices.List(ctx, p).All(ctx) {
		if err != nil {
			return nil, apiError("listing invoices", err)
		}
		if invoice.Total <= 0 {
			continue
		}
		until, err := s.paidUntil(ctx, invoice)
		if err != nil {
			return nil, err
		}
		if !until.IsZero() {
			return s.payment(ctx, invoice.ID, until)
		}
	}
	return nil, nil
}

// paidUntil returns the latest period end among the invoice's subscription lines, or the zero time
// if it has none.
func (s *Stripe) paidUntil(ctx context.Context, invoice *api.Invoice) (until time.Time, err error) {
	lines, err := s.lines(ctx, invoice)
	if err != nil {
		return until, err
	}
	for _, line := range lines {
		if line.Parent == nil || line.Parent.Type != api.InvoiceLineItemParentTypeSubscriptionItemDetails ||
			line.Period == nil {
			continue
		}
		if end := time.Unix(line.Period.End, 0).UTC(); end.After(until) {
			until = end
		}
	}
	return until, nil
}

// payment returns whether a paid invoice has been refunded or disputed. An invoice paid outside
// Stripe has no charges.
func (s *Stripe) payment(ctx context.Context, invoice string, until time.Time) (*subscription.Payment, error) {
	paid := &subscription.Payment{Invoice: invoice, Until: until}
	p := &api.InvoicePaymentListParams{Invoice: api.String(invoice), Status: api.String("paid")}
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

// disputed reports whether a charge has an open or lost dispute. A won dispute leaves the payment
// in place, an inquiry has not withdrawn it yet, and a prevented dispute was refunded instead.
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
