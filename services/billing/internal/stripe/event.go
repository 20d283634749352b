package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v86"
	"github.com/stripe/stripe-go/v86/webhook"

	"opportunity.internal/services/billing/internal/processor"
)

// tolerance is how far the time of a signature may be from ours, in either direction: an announcement that somebody has recorded is
// worth nothing soon after.
const tolerance = 5 * time.Minute

// Event reads an announcement: processor.ErrSignature unless one of the secrets signed it, and lately; processor.ErrMalformed where it is
// none. What is about a payment names no subscription; Stripe is asked for it.
//
// An event made under another version of the API is taken too: only ids are read of it.
func (s *Stripe) Event(ctx context.Context, body []byte, signature string, now time.Time) (processor.Event, error) {
	if err := fresh(signature, now); err != nil {
		return processor.Event{}, err
	}
	event, err := s.signed(body, signature)
	if err != nil {
		return processor.Event{}, err
	}
	if event.ID == "" || event.Type == "" || event.Data == nil || len(event.Data.Raw) == 0 {
		return processor.Event{}, processor.ErrMalformed
	}
	out := processor.Event{ID: event.ID, Kind: string(event.Type)}
	var about object
	if !relevant(out.Kind) {
		return out, nil
	}
	if err := json.Unmarshal(event.Data.Raw, &about); err != nil {
		return out, fmt.Errorf("%w: the object of a %s", processor.ErrMalformed, out.Kind)
	}
	out.Subscription, err = s.subscriptionOf(ctx, out.Kind, about)
	return out, err
}

// signed tries every secret: while one is rolled, Stripe signs with either.
func (s *Stripe) signed(body []byte, signature string) (event api.Event, err error) {
	for _, secret := range s.secrets {
		event, err = webhook.ConstructEventWithOptions(body, signature, secret, webhook.ConstructEventOptions{
			IgnoreTolerance: true, IgnoreAPIVersionMismatch: true, // fresh has judged the time, by our own clock
		})
		if !errors.Is(err, webhook.ErrNoValidSignature) {
			break
		}
	}
	switch {
	case err == nil:
		return event, nil
	case errors.Is(err, webhook.ErrNoValidSignature), errors.Is(err, webhook.ErrInvalidHeader), errors.Is(err, webhook.ErrNotSigned):
		return event, processor.ErrSignature
	}
	return event, processor.ErrMalformed // err may quote the body
}

// fresh judges the time of a signature header such as t=1495999758,v1=ABC. stripe-go judges it by the machine's clock, and not what
// comes from the future. Of several times it takes the last for what was signed, so that each must be right.
func fresh(signature string, now time.Time) error {
	timed := false
	for part := range strings.SplitSeq(signature, ",") {
		stamp, ok := strings.CutPrefix(part, "t=")
		if !ok {
			continue
		}
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if d := now.Sub(time.Unix(seconds, 0)); err != nil || d > tolerance || d < -tolerance {
			return processor.ErrSignature
		}
		timed = true
	}
	if !timed {
		return processor.ErrSignature
	}
	return nil
}

// The kinds of events that can change what an account has paid for. Those that end with a dot are all of that beginning.
var kinds = []string{
	"customer.subscription.", "invoice.created", "invoice.paid", "invoice.payment_failed", "invoice.payment_succeeded", "invoice.marked_uncollectible",
	"invoice.voided", "checkout.session.completed", "charge.refunded", "charge.refund.updated", "refund.", "charge.dispute.",
}

func relevant(kind string) bool {
	for _, k := range kinds {
		if kind == k || strings.HasSuffix(k, ".") && strings.HasPrefix(kind, k) {
			return true
		}
	}
	return false
}

// object is what is read of the object of an event, be it a subscription, an invoice, a checkout session, a charge, a refund or a dispute.
type object struct {
	ID            string    `json:"id"`
	Subscription  reference `json:"subscription"` // of a session; of an invoice in the older shape
	Charge        reference `json:"charge"`
	PaymentIntent reference `json:"payment_intent"`
	Parent        *struct {
		Details *struct {
			Subscription reference `json:"subscription"`
		} `json:"subscription_details"`
	} `json:"parent"`
}

// reference is an id, or an object that has one.
type reference string

// UnmarshalJSON reads either form.
func (r *reference) UnmarshalJSON(data []byte) error {
	var id string
	if json.Unmarshal(data, &id) == nil {
		*r = reference(id)
		return nil
	}
	var expanded struct{ ID string }
	err := json.Unmarshal(data, &expanded)
	*r = reference(expanded.ID)
	return err
}

func (s *Stripe) subscriptionOf(ctx context.Context, kind string, about object) (string, error) {
	switch {
	case strings.HasPrefix(kind, "customer.subscription."):
		return about.ID, nil
	case about.Parent != nil && about.Parent.Details != nil:
		return string(about.Parent.Details.Subscription), nil
	case strings.HasPrefix(kind, "invoice.") || strings.HasPrefix(kind, "checkout."):
		return string(about.Subscription), nil
	}
	intent := string(about.PaymentIntent)
	if intent == "" && about.Charge != "" {
		charge, err := s.client.V1Charges.Retrieve(ctx, string(about.Charge), &api.ChargeRetrieveParams{})
		if err != nil {
			return "", absent(failure("charge", err))
		}
		if charge.PaymentIntent != nil {
			intent = charge.PaymentIntent.ID
		}
	}
	if intent == "" {
		return "", nil
	}
	return s.bought(ctx, intent)
}

// bought is the subscription whose invoice a payment paid; empty: it paid none.
func (s *Stripe) bought(ctx context.Context, intent string) (string, error) {
	p := &api.InvoicePaymentListParams{Payment: &api.InvoicePaymentListPaymentParams{
		Type: api.String(string(api.InvoicePaymentPaymentTypePaymentIntent)), PaymentIntent: api.String(intent),
	}}
	p.AddExpand("data.invoice")
	for payment, err := range s.client.V1InvoicePayments.List(ctx, p).All(ctx) {
		if err != nil {
			return "", absent(failure("invoice of a payment", err))
		}
		if i := payment.Invoice; i != nil && i.Parent != nil && i.Parent.SubscriptionDetails != nil && i.Parent.SubscriptionDetails.Subscription != nil {
			return i.Parent.SubscriptionDetails.Subscription.ID, nil
		}
	}
	return "", nil
}

// absent: what Stripe does not have can have bought nothing.
func absent(err error) error {
	if errors.Is(err, processor.ErrUnknown) {
		return nil
	}
	return err
}
