package stripetest

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v86"
	"github.com/stripe/stripe-go/v86/webhook"
)

// Period is the length of a paid period.
const Period = 30 * 24 * time.Hour

// Event is the body of a webhook event.
type Event []byte

// Signature returns the Stripe-Signature header of the event, signed with secret at a time.
func (e Event) Signature(secret string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: e, Secret: secret, Timestamp: at}).Header
}

func (s *Server) event(eventType string, obj object) Event {
	e := s.make("evt", "event", object{"type": eventType, "api_version": stripe.APIVersion, "data": object{"object": obj}})
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return text
}

// Session returns the parameters and id of the checkout session at url.
func (s *Server) Session(url string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[url[strings.LastIndexByte(url, '/')+1:]]
}

// Pay completes the checkout session at url with a valid card.
func (s *Server) Pay(url string) (subscription string, events []Event) {
	session := s.Session(url)
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscribe(session["customer"].(string), session["subscription_metadata"].(object))
	session["subscription"], session["status"] = sub["id"], "complete"
	invoice := s.invoice(sub, "subscription_create")
	s.paid(invoice)
	return sub["id"].(string), []Event{
		s.event("checkout.session.completed", session), s.event("customer.subscription.created", sub),
		s.event("invoice.paid", invoice), s.event("invoice.payment_succeeded", invoice),
	}
}

// Subscribe creates a paid subscription without a checkout session, as an operator can do at Stripe.
func (s *Server) Subscribe(customer string, metadata map[string]any) (subscription string, events []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscribe(customer, metadata)
	invoice := s.invoice(sub, "subscription_create")
	s.paid(invoice)
	return sub["id"].(string), []Event{s.event("customer.subscription.created", sub), s.event("invoice.paid", invoice)}
}

func (s *Server) subscribe(customer string, metadata object) object {
	sub := s.make("sub", "subscription", object{
		"customer": customer, "status": "active", "cancel_at_period_end": false, "metadata": metadata,
	})
	sub["until"] = s.now
	s.subscriptions[sub["id"].(string)] = sub
	return sub
}

// invoice creates an invoice for the period after the last one. Its charge was attempted and failed.
func (s *Server) invoice(sub object, reason string) object {
	from := sub["until"].(time.Time)
	until := from.Add(Period)
	sub["until"] = until
	i := s.make("in", "invoice", object{
		"of": sub["id"], "customer": sub["customer"], "status": "open", "attempted": true, "total": 2900,
		"billing_reason": reason, "collection_method": "charge_automatically", "auto_advance": true,
		"parent": object{"type": "subscription_details", "subscription_details": object{"subscription": sub["id"]}},
		"lines": page([]object{{
			"id": "il_1", "object": "line_item", "amount": 2900, "period": object{"start": unix(from), "end": unix(until)},
			"parent": object{"type": "subscription_item_details", "subscription_item_details": object{"subscription": sub["id"]}},
		}}),
	})
	s.invoices = append(s.invoices, i)
	return i
}

func (s *Server) paid(invoice object) {
	charge := s.make("ch", "charge", object{"amount": 2900, "amount_refunded": 0, "refunded": false, "disputed": false})
	charge["payment_intent"] = strings.Replace(charge["id"].(string), "ch_", "pi_", 1)
	s.charges[charge["id"].(string)] = charge
	invoice["status"], invoice["charge"], invoice["attempted"], invoice["auto_advance"] = "paid", charge["id"], true, false
}

// Renew invoices the next period; the charge succeeds or fails.
func (s *Server) Renew(subscription string, paid bool) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscriptions[subscription]
	invoice, kind := s.invoice(sub, "subscription_cycle"), "invoice.paid"
	sub["status"] = "active"
	if paid {
		s.paid(invoice)
	} else {
		sub["status"], kind = "past_due", "invoice.payment_failed"
	}
	return []Event{s.event(kind, invoice), s.event("customer.subscription.updated", sub)}
}

// Cancel sets or clears cancel_at_period_end, as older portals do.
func (s *Server) Cancel(subscription string, cancel bool) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriptions[subscription]["cancel_at_period_end"] = cancel
	return []Event{s.event("customer.subscription.updated", s.subscriptions[subscription])}
}

// CancelAt cancels the subscription a number of periods after the paid one by setting cancel_at, as the portal does since 2025.
func (s *Server) CancelAt(subscription string, periods int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscriptions[subscription]
	sub["cancel_at"] = unix(sub["until"].(time.Time).Add(time.Duration(periods) * Period))
	return []Event{s.event("customer.subscription.updated", sub)}
}

// update handles POST /v1/subscriptions/{id}.
func update(sub object, form url.Values) {
	if form.Has("cancel_at_period_end") {
		sub["cancel_at_period_end"] = form.Get("cancel_at_period_end") == "true"
	}
	if form.Has("cancel_at") && form.Get("cancel_at") == "" {
		delete(sub, "cancel_at")
	}
}

// Delete ends a subscription immediately.
func (s *Server) Delete(subscription string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriptions[subscription]["status"] = "canceled"
	return []Event{s.event("customer.subscription.deleted", s.subscriptions[subscription])}
}

// Remove deletes a subscription, so that Stripe no longer finds it.
func (s *Server) Remove(subscription string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscriptions, subscription)
}

// lastCharge returns the charge of the latest paid invoice.
func (s *Server) lastCharge(subscription string) (charge object) {
	for _, i := range s.invoices {
		if id, ok := i["charge"].(string); ok && i["of"] == subscription {
			charge = s.charges[id]
		}
	}
	return charge
}

// Refund refunds cents of the latest payment.
func (s *Server) Refund(subscription string, cents int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	charge := s.lastCharge(subscription)
	charge["amount_refunded"] = charge["amount_refunded"].(int) + cents
	charge["refunded"] = charge["amount_refunded"] == charge["amount"]
	refund := s.make("re", "refund", object{"charge": charge["id"], "payment_intent": charge["payment_intent"], "amount": cents})
	return []Event{s.event("charge.refunded", charge), s.event("refund.created", refund)}
}

// Dispute sets the dispute of the latest payment to a status of Stripe's.
func (s *Server) Dispute(subscription, status string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	charge := s.lastCharge(subscription)
	charge["disputed"] = true
	s.disputes[charge["id"].(string)] = status
	kind := "charge.dispute.created"
	if status == "won" || status == "lost" {
		kind = "charge.dispute.closed"
	}
	// The event has no payment intent, as on older Stripe accounts; it is found through the charge.
	return []Event{s.event(kind, s.make("dp", "dispute", object{"charge": charge["id"], "status": status}))}
}

// UnrelatedEvent returns an event about something other than a subscription.
func (s *Server) UnrelatedEvent(eventType string) Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.event(eventType, object{"id": "prod_1", "object": "product"})
}
