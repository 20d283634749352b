package sandbox

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"gorm.io/gorm"
)

func (s *Sandbox) price(c call) (object, error) {
	if c.PathValue("id") != Price {
		return nil, errNotFound
	}
	var product any = Product
	if c.expands("product") {
		product = object{"id": Product, "object": "product", "name": s.plan.Name, "active": true}
	}
	return object{
		"id": Price, "object": "price", "active": true, "currency": "usd", "unit_amount": s.plan.MonthlyUSD * 100,
		"type":      "recurring",
		"recurring": object{"interval": "month", "interval_count": 1, "usage_type": "licensed"}, "product": product,
	}, nil
}

func (s *Sandbox) createCustomer(c call) (object, error) {
	made := customer{ID: "cus_sandbox_" + rand.Text(), Metadata: c.metadata("metadata")}
	return made.object(), made.save(c.tx)
}

func (c customer) object() object {
	if c.Deleted {
		return object{"id": c.ID, "object": "customer", "deleted": true}
	}
	return object{"id": c.ID, "object": "customer", "metadata": c.Metadata}
}

func (c call) customer() (customer, error) {
	id := c.Form.Get("customer")
	found, err := get[customer](c.tx, customerKind, id)
	if err == nil && found.Deleted {
		err = errNotFound
	}
	return found, named(err, "customer", id)
}

// named returns the error of a parameter that names an object that does not exist, instead of
// errNotFound.
func named(err error, param, id string) error {
	if errors.Is(err, errNotFound) {
		return missing(param, id)
	}
	return err
}

// The life of a checkout session must end within these times.
const (
	minSession = 30 * time.Minute
	maxSession = 24 * time.Hour
)

func (s *Sandbox) createCheckout(c call) (object, error) {
	buyer, err := c.customer()
	if err != nil {
		return nil, err
	}
	made := session{
		ID: "cs_sandbox_" + rand.Text(), Kind: Checkout, Customer: buyer.ID, Account: c.metadata("metadata")["account"],
		Metadata: c.metadata("subscription_data[metadata]"), SuccessURL: c.Form.Get("success_url"),
		CancelURL: c.Form.Get("cancel_url"),
		ExpiresAt: c.now.Add(maxSession),
	}
	if text := c.Form.Get("expires_at"); text != "" {
		var ok bool
		if made.ExpiresAt, ok = instant(text); !ok || made.ExpiresAt.Before(c.now.Add(minSession)) ||
			made.ExpiresAt.After(c.now.Add(maxSession)) {
			return nil, invalid("expires_at", "expires_at must be between 30 minutes and 24 hours from now")
		}
	}
	switch {
	case c.Form.Get("mode") != "subscription":
		return nil, invalid("mode", "the sandbox sells subscriptions")
	case c.Form.Get("line_items[0][price]") != Price:
		return nil, missing("price", c.Form.Get("line_items[0][price]"))
	case !s.validReturnURL(made.SuccessURL) || !s.validReturnURL(made.CancelURL):
		return nil, invalid("success_url", "return URL is not below "+s.publicURL)
	}
	return s.sessionObject(made, c.now), made.save(c.tx)
}

func (s *Sandbox) sessionURL(of session) string {
	return s.publicURL + Path + string(of.Kind) + "/" + of.ID
}

func (s *Sandbox) sessionObject(of session, now time.Time) object {
	return object{
		"id": of.ID, "object": "checkout.session", "customer": of.Customer, "mode": "subscription", "status": of.status(now),
		"url":      s.sessionURL(of),
		"metadata": object{"account": of.Account}, "subscription": orNil(of.Subscription), "expires_at": of.ExpiresAt.Unix(),
		"success_url": of.SuccessURL, "cancel_url": of.CancelURL,
	}
}

func orNil(id string) any {
	if id == "" {
		return nil
	}
	return id
}

func (s *Sandbox) listCheckouts(c call) (object, error) {
	sessions, err := list[session](c.tx, "kind = ?", sessionKind)
	if err != nil {
		return nil, err
	}
	var out []object
	for _, one := range sessions {
		status := one.status(c.now)
		if one.Kind == Checkout && (c.Form.Get("status") == "" || status == c.Form.Get("status")) {
			out = append(out, s.sessionObject(one, c.now))
		}
	}
	return listOf(out...), nil
}

func (s *Sandbox) expireCheckout(c call) (object, error) {
	found, err := get[session](c.tx, sessionKind, c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if found.Kind != Checkout || found.status(c.now) != "open" {
		return nil, invalid("", "Only Checkout Sessions with a status in [\"open\"] can be expired.")
	}
	found.Expired = true
	return s.sessionObject(found, c.now), found.save(c.tx)
}

// portalTTL limits the life of a portal session, because its URL alone gives access.
const portalTTL = 24 * time.Hour

func (s *Sandbox) createPortal(c call) (object, error) {
	owner, err := c.customer()
	if err != nil {
		return nil, err
	}
	made := session{
		ID: "bps_sandbox_" + rand.Text(), Kind: Portal, Customer: owner.ID, SuccessURL: c.Form.Get("return_url"),
		ExpiresAt: c.now.Add(portalTTL),
	}
	if !s.validReturnURL(made.SuccessURL) {
		return nil, invalid("return_url", "return URL is not below "+s.publicURL)
	}
	return object{"id": made.ID, "object": "billing_portal.session", "url": s.sessionURL(made)}, made.save(c.tx)
}

func (s *Sandbox) listSubscriptions(c call) (object, error) {
	where, args := "kind = ?", []any{subscriptionKind}
	if id := c.Form.Get("customer"); id != "" {
		if _, err := get[customer](c.tx, customerKind, id); err != nil {
			return nil, named(err, "customer", id)
		}
		where, args = where+" AND customer = ?", append(args, id)
	}
	found, err := list[Subscription](c.tx, where, args...)
	if err != nil {
		return nil, err
	}
	var out []object
	for _, sub := range found {
		if sub.Ended() && c.Form.Get("status") != "all" {
			continue
		}
		o, err := c.expanded(sub, "data.")
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return listOf(out...), nil
}

func (s *Sandbox) getSubscription(c call) (object, error) {
	found, err := get[Subscription](c.tx, subscriptionKind, c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return c.expanded(found, "")
}

func (s *Subscription) object() object {
	var cancelAt any
	if !s.CancelAt.IsZero() {
		cancelAt = s.CancelAt.Unix()
	}
	return object{
		"id": s.ID, "object": "subscription", "customer": s.Customer, "metadata": s.Metadata, "status": s.Status,
		"created":              s.CreatedAt.Unix(),
		"cancel_at_period_end": s.CancelAtPeriodEnd, "cancel_at": cancelAt, "latest_invoice": s.Invoices[0].ID,
		"items": listOf(object{
			"id": "si" + strings.TrimPrefix(s.ID,
				"sub"), "object": "subscription_item", "current_period_end": s.PeriodEnd.Unix(),
			"price": object{"id": Price, "object": "price", "product": Product},
		}),
	}
}

// expanded returns a subscription with the fields that the request expands, whose names begin with
// prefix.
func (c call) expanded(s Subscription, prefix string) (object, error) {
	out := s.object()
	if c.expands(prefix + "latest_invoice") {
		out["latest_invoice"] = s.invoiceObject(s.Invoices[0])
	}
	if c.expands(prefix + "customer") {
		of, err := get[customer](c.tx, customerKind, s.Customer)
		if err != nil {
			return nil, err
		}
		out["customer"] = of.object()
	}
	return out, nil
}

func (s *Sandbox) updateSubscription(c call) (out object, err error) {
	err = update(c.tx, c.PathValue("id"), c.now, func(sub *Subscription, _ time.Time) (events []string, err error) {
		if sub.Ended() {
			return nil, invalid("", "A canceled subscription can only update its cancellation_details and metadata.")
		}
		if text := c.Form.Get("cancel_at_period_end"); text != "" {
			if events, err = sub.SetCancelAtPeriodEnd(text == "true"); err != nil {
				return nil, invalid("cancel_at_period_end", err.Error())
			}
		}
		if c.Form.Has("cancel_at") {
			at, ok := instant(c.Form.Get("cancel_at"))
			if !ok && c.Form.Get("cancel_at") != "" {
				return nil, invalid("cancel_at", "Invalid timestamp")
			}
			sub.CancelAt, events = at, []string{updated}
		}
		out = sub.object()
		return events, nil
	})
	return out, err
}

func (s *Sandbox) listInvoices(c call) (object, error) {
	found, err := get[Subscription](c.tx, subscriptionKind, c.Form.Get("subscription"))
	if err != nil {
		return nil, named(err, "subscription", c.Form.Get("subscription"))
	}
	var out []object
	for _, in := range found.Invoices {
		if c.Form.Get("status") == "" || string(in.Status) == c.Form.Get("status") {
			out = append(out, found.invoiceObject(in))
		}
	}
	return listOf(out...), nil
}

func (s *Subscription) invoiceObject(in Invoice) object {
	reason := "subscription_create"
	if in.Renewal {
		reason = "subscription_cycle"
	}
	return object{
		"id": in.ID, "object": "invoice", "customer": s.Customer, "status": in.Status, "attempted": in.Attempted,
		"auto_advance":   in.Advances,
		"billing_reason": reason, "collection_method": "charge_automatically", "total": in.cents(),
		"parent": object{"type": "subscription_details", "subscription_details": object{"subscription": s.ID}},
		"lines": listOf(object{
			"id": in.part("il"), "object": "line_item", "amount": in.cents(), "period": object{"start": in.From.Unix(),
				"end": in.Until.Unix()},
			"parent": object{"type": "subscription_item_details", "subscription_item_details": object{"subscription": s.ID}},
		}),
	}
}

func findInvoice(tx *gorm.DB, id string) (sub Subscription, index int, err error) {
	found, err := list[Subscription](tx, "kind = ?", subscriptionKind)
	for _, sub := range found {
		for i, in := range sub.Invoices {
			if in.ID == id {
				return sub, i, nil
			}
		}
	}
	return sub, 0, errors.Join(err, errNotFound)
}

func (s *Sandbox) finalizeInvoice(c call) (object, error) {
	sub, i, err := findInvoice(c.tx, c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	in := &sub.Invoices[i]
	if in.Status != Draft {
		return nil, invalid("", "This invoice is "+string(in.Status)+": only drafts can be finalized.")
	}
	in.Status, in.Advances = Open, c.Form.Get("auto_advance") == "true"
	return sub.invoiceObject(*in), sub.save(c.tx, nil)
}

func (s *Sandbox) payInvoice(c call) (object, error) {
	sub, i, err := findInvoice(c.tx, c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	in := &sub.Invoices[i]
	if in.Status != Open || sub.Ended() {
		return nil, invalid("", "This invoice is "+string(in.Status)+" and cannot be paid.")
	}
	payer, err := get[customer](c.tx, customerKind, sub.Customer)
	if err != nil {
		return nil, err
	}
	if err := sub.save(c.tx, sub.charge(in, payer.Declines, c.now)); err != nil {
		return nil, err
	}
	if !in.Paid() {
		return nil, &apiError{status: http.StatusPaymentRequired, kind: "card_error", code: "card_declined",
			message: "Your card was declined."}
	}
	return sub.invoiceObject(*in), nil
}

// listInvoicePayments lists the payment of an invoice, or of the invoice that a payment intent
// paid.
func (s *Sandbox) listInvoicePayments(c call) (object, error) {
	id := c.Form.Get("invoice")
	if intent := c.Form.Get("payment[payment_intent]"); intent != "" {
		id = "in" + strings.TrimPrefix(intent, "pi")
	}
	sub, i, err := findInvoice(c.tx, id)
	if errors.Is(err, errNotFound) || err == nil && !sub.Invoices[i].Paid() {
		return listOf(), nil
	}
	if err != nil {
		return nil, err
	}
	in := sub.Invoices[i]
	var invoice, intent any = in.ID, in.part("pi")
	if c.expands("data.invoice") {
		invoice = sub.invoiceObject(in)
	}
	if c.expands("data.payment.payment_intent.latest_charge") {
		intent = object{"id": in.part("pi"), "object": "payment_intent", "latest_charge": object{
			"id": in.part("ch"), "object": "charge", "amount": in.cents(), "payment_intent": in.part("pi"),
		}}
	}
	return listOf(object{
		"id": in.part("inpay"), "object": "invoice_payment", "status": "paid", "invoice": invoice,
		"payment": object{"type": "payment_intent", "payment_intent": intent},
	}), nil
}
