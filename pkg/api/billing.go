package api

import (
	"fmt"
	"time"
)

// Trouble is a payment problem that has ended or will end what an account has paid for.
type Trouble string

const (
	NoTrouble     Trouble = ""
	PaymentFailed Trouble = "payment-failed" // the latest charge failed; the period paid before it continues
	Refunded      Trouble = "refunded"       // the latest payment was refunded in full, which ended the plan at once
	Disputed      Trouble = "disputed"       // the latest payment is disputed, which ended the plan at once
)

// Entitlement describes what an account has paid for. Billing pushes it to authquota with PUT
// /internal/v1/entitlements/{account}.
//
// It is the whole state, not a change: authquota keeps the one with the greatest Version and
// ignores others. It responds with 204, or with 404 if it does not have the account.
type Entitlement struct {
	Tier      Tier       `json:"tier"`      // BaseTier if nothing is paid for
	PaidUntil *time.Time `json:"paidUntil"` // end of the paid period, exclusive; nil if and only if Tier is BaseTier
	Renews    bool       `json:"renews"`    // whether the processor will charge again at PaidUntil
	Trouble   Trouble    `json:"trouble"`
	// positive; increases with every change of the account's entitlement, with gaps
	Version int64 `json:"version"`
}

// Live reports whether the paid period includes the given time.
func (e Entitlement) Live(at time.Time) bool { return e.PaidUntil != nil && at.Before(*e.PaidUntil) }

// PrincipalChange is a scheduled change of a principal, at the end of a paid period. Services that
// cache the principal apply the change at that time without another lookup.
type PrincipalChange struct {
	At     time.Time `json:"at"`
	Tier   Tier      `json:"tier"`
	Limits Limits    `json:"limits"`
}

// ProcessorRequest asks for a ProcessorPage: POST /internal/v1/checkouts for the one where the
// account buys the plan, and POST /internal/v1/portals for the one where it changes its card and
// reads its invoices. The processor sends the browser back to ReturnURL, paid or not.
type ProcessorRequest struct {
	Account   string `json:"account"`
	Email     string `json:"email"` // of the person who buys
	ReturnURL string `json:"returnUrl"`
}

// ProcessorPage is a page of the payment processor to redirect the browser to.
type ProcessorPage struct {
	URL string `json:"url"`
}

// Purchase is the state of an account's purchase of the plan. A payment supersedes every declined
// card before it.
type Purchase string

const (
	NoPurchase Purchase = "" // nothing is being bought, and no subscription continues
	// a checkout session is open, and the processor has reported neither a payment nor a declined
	// card
	PurchaseOpen     Purchase = "open"
	PurchaseDeclined Purchase = "declined" // the card was declined, nothing was paid; the payment can be repeated
	// the processor has confirmed a payment, and the subscription renews or can be resumed
	PurchasePaid Purchase = "paid"
)

// Subscription is the payment status of an account, shown on its plan page. It is the response to
// GET /internal/v1/subscriptions/{account} and to POST .../cancel and .../resume below it.
type Subscription struct {
	Entitlement Entitlement `json:"entitlement"`
	Customer    bool        `json:"customer"`  // the account is a customer at the processor and has a portal
	Renewing    bool        `json:"renewing"`  // a subscription will charge again and can be cancelled
	Cancelled   bool        `json:"cancelled"` // none renews, and one that ends at PaidUntil can be resumed
	Purchase    Purchase    `json:"purchase"`
	Sandbox     bool        `json:"sandbox"` // the processor is the sandbox: no real money moves
}

// BillingDifference is one difference that a reconciliation found, in a field of a subscription or,
// if Subscription is empty, in the account's stored entitlement.
type BillingDifference struct {
	Account      string `json:"account"`
	Subscription string `json:"subscription"`
	Field        string `json:"field"`
	Had          string `json:"had"`    // the value that was stored
	Has          string `json:"has"`    // the value at the processor
	Healed       bool   `json:"healed"` // whether Has was stored
}

// BillingReport is the result of a reconciliation with the payment processor: the response to POST
// /operator/v1/billing/reconcile.
type BillingReport struct {
	Customers     int `json:"customers"`     // compared
	Subscriptions int `json:"subscriptions"` // compared
	// customers and subscriptions that the processor returned an error for
	Failed      int                 `json:"failed"`
	Differences []BillingDifference `json:"differences"`
}

// Healed returns the number of differences that were corrected.
func (r BillingReport) Healed() int {
	n := 0
	for _, d := range r.Differences {
		if d.Healed {
			n++
		}
	}
	return n
}

// Summary returns the report in one line.
func (r BillingReport) Summary() string {
	return fmt.Sprintf("compared %d subscriptions of %d customers: %d differences, %d healed; %d could not be compared",
		r.Subscriptions, r.Customers, len(r.Differences), r.Healed(), r.Failed)
}
