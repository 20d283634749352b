package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v86"
	"github.com/stripe/stripe-go/v86/webhook"

	"opportunity.internal/services/billing/internal/subscription"
)

// Errors of events.
var (
	ErrSignature = errors.New("invalid or expired signature")
	ErrMalformed = errors.New("malformed event")
)

// tolerance is the maximum age of a signature, and how far in the future it may be. It stops
// replays of recorded events.
const tolerance = 5 * time.Minute

// Event verifies and decodes a webhook event. It returns ErrSignature unless one of the secrets
// signed the body within the tolerance, and ErrMalformed if the body is not an event. Events about
// payments do not name a subscription, so Event looks it up at Stripe.
//
// Events of any Stripe API version are accepted, because only ids are read from them.
func (s *Stripe) Event(ctx context.Context, body []byte, signature string, now time.Time) (subscription.Event, error) {
	if err := checkTimestamp(signature, now); err != nil {
		return subscription.Event{}, err
	}
	event, err := s.verify(body, signature)
	if err != nil {
		return subscription.Event{}, err
	}
	if event.ID == "" || event.Type == "" || event.Data == nil || len(event.Data.Raw) == 0 {
		return subscription.Event{}, ErrMalformed
	}
	out := subscription.Event{ID: event.ID, Type: string(event.Type)}
	var obj object
	if !relevant.MatchString(out.Type) {
		return out, nil
	}
	if err := json.Unmarshal(event.Data.Raw, &obj); err != nil {
		return out, fmt.Errorf("%w: object of %s", ErrMalformed, out.Type)
	}
	out.Subscription, err = s.subscriptionOf(ctx, out.Type, obj)
	return out, err
}

// verify tries every secret, because Stripe may sign with the old or the new one while a secret is
// rotated.
func (s *Stripe) verify(body []byte, signature string) (event api.Event, err error) {
	err = webhook.ErrNoValidSignature // without a secret, which the sandbox does not need
	for _, secret := range s.secrets {
		event, err = webhook.ConstructEventWithOptions(body, signature, secret, webhook.ConstructEventOptions{
			IgnoreTolerance: true, IgnoreAPIVersionMismatch: true, // checkTimestamp has checked the time
		})
		if !errors.Is(err, webhook.ErrNoValidSignature) {
			break
		}
	}
	switch {
	case err == nil:
		return event, nil
	case errors.Is(err, webhook.ErrNoValidSignature), errors.Is(err, webhook.ErrInvalidHeader), errors.Is(err,
		webhook.ErrNotSigned):
		return event, ErrSignature
	}
	return event, ErrMalformed // err may quote the body
}

// checkTimestamp checks the time in a signature header such as t=1495999758,v1=ABC. stripe-go uses
// the machine's clock and accepts times in the future. If the header has several times, stripe-go
// verifies the signature with the last one, so all of them must be valid.
func checkTimestamp(signature string, now time.Time) error {
	found := false
	for part := range strings.SplitSeq(signature, ",") {
		stamp, ok := strings.CutPrefix(part, "t=")
		if !ok {
			continue
		}
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if d := now.Sub(time.Unix(seconds, 0)); err != nil || d > tolerance || d < -tolerance {
			return ErrSignature
		}
		found = true
	}
	if !found {
		return ErrSignature
	}
	return nil
}

// relevant matches the types of events that can change an entitlement.
var relevant = regexp.MustCompile(`^(customer\.subscription\..*|checkout\.session\.completed|refund\..*|` +
	`invoice\.(created|paid|payment_failed|payment_succeeded|marked_uncollectible|voided)|` +
	`charge\.(refunded|refund\.updated|dispute\..*))$`)

// object holds the fields billing reads from the object of an event: a subscription, invoice,
// checkout session, charge, refund or dispute.
type object struct {
	ID            string    `json:"id"`
	Subscription  reference `json:"subscription"` // of a session, or of an invoice in older API versions
	Charge        reference `json:"charge"`
	PaymentIntent reference `json:"payment_intent"`
	Parent        *struct {
		Details *struct {
			Subscription reference `json:"subscription"`
		} `json:"subscription_details"`
	} `json:"parent"`
}

type reference string

// UnmarshalJSON decodes either form.
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

// subscriptionOf returns the subscription an event is about, or an empty id if there is none.
func (s *Stripe) subscriptionOf(ctx context.Context, eventType string, obj object) (string, error) {
	switch {
	case strings.HasPrefix(eventType, "customer.subscription."):
		return obj.ID, nil
	case obj.Parent != nil && obj.Parent.Details != nil:
		return string(obj.Parent.Details.Subscription), nil
	case strings.HasPrefix(eventType, "invoice.") || strings.HasPrefix(eventType, "checkout."):
		return string(obj.Subscription), nil
	}
	intent := string(obj.PaymentIntent)
	if intent == "" && obj.Charge != "" {
		charge, err := s.client.V1Charges.Retrieve(ctx, string(obj.Charge), &api.ChargeRetrieveParams{})
		if err != nil {
			return "", ignoreNotFound(apiError("reading a charge", err))
		}
		if charge.PaymentIntent != nil {
			intent = charge.PaymentIntent.ID
		}
	}
	if intent == "" {
		return "", nil
	}
	return s.subscriptionOfPayment(ctx, intent)
}

// subscriptionOfPayment returns the subscription whose invoice a payment intent paid, or an empty
// id if there is none.
func (s *Stripe) subscriptionOfPayment(ctx context.Context, intent string) (string, error) {
	p := &api.InvoicePaymentListParams{Payment: &api.InvoicePaymentListPaymentParams{
		Type: api.String(string(api.InvoicePaymentPaymentTypePaymentIntent)), PaymentIntent: api.String(intent),
	}}
	p.AddExpand("data.invoice")
	for payment, err := range s.client.V1InvoicePayments.List(ctx, p).All(ctx) {
		if err != nil {
			return "", ignoreNotFound(apiError("listing invoices of a payment", err))
		}
		if i := payment.Invoice; i != nil && i.Parent != nil && i.Parent.SubscriptionDetails != nil &&
			i.Parent.SubscriptionDetails.Subscription != nil {
			return i.Parent.SubscriptionDetails.Subscription.ID, nil
		}
	}
	return "", nil
}

// ignoreNotFound drops subscription.ErrNotFound: an object that Stripe does not have paid for
// nothing.
func ignoreNotFound(err error) error {
	if errors.Is(err, subscription.ErrNotFound) {
		return nil
	}
	return err
}
