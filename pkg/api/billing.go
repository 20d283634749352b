package api

import (
	"fmt"
	"time"
)

// Trouble is why less, or nothing, is paid for although nobody cancelled.
type Trouble string

const (
	NoTrouble     Trouble = ""
	PaymentFailed Trouble = "payment-failed" // the latest charge failed: what was paid before it still runs
	Refunded      Trouble = "refunded"       // the whole of the latest payment went back: it ended at once
	Disputed      Trouble = "disputed"       // the latest payment is disputed: it ended at once
)

// Entitlement is what an account has paid for, as billing tells authquota: PUT /internal/v1/entitlements/{account}, answered with 204. It
// is the whole state, not a change, so that of several only the one with the greatest Version matters: another one is accepted and
// changes nothing. An account that authquota does not have is a 404.
type Entitlement struct {
	Tier      Tier       `json:"tier"`      // Free: nothing is paid for
	PaidUntil *time.Time `json:"paidUntil"` // the first instant that is not paid for; nil exactly where Tier is Free
	Renews    bool       `json:"renews"`    // whether the processor will charge again at PaidUntil
	Trouble   Trouble    `json:"trouble"`
	Version   int64      `json:"version"` // of the account's entitlement: above 0, and greater with each change, if not by one
}

// Live reports whether something is paid for at an instant.
func (e Entitlement) Live(at time.Time) bool { return e.PaidUntil != nil && at.Before(*e.PaidUntil) }

// PrincipalChange is what a principal becomes by itself at an instant that is known in advance: when the period that an account has paid
// for ends. Whoever keeps a principal applies it on that second, without asking anybody.
type PrincipalChange struct {
	At     time.Time `json:"at"`
	Tier   Tier      `json:"tier"`
	Limits Limits    `json:"limits"`
}

// CheckoutRequest asks billing for a page of the payment processor on which an account buys the plan that is sold: POST
// /internal/v1/checkouts. The person comes back to ReturnURL in either case.
type CheckoutRequest struct {
	Account   string `json:"account"`
	Email     string `json:"email"`
	ReturnURL string `json:"returnUrl"`
}

// PortalRequest asks billing for the processor's page on which an account changes its card and reads its invoices: POST
// /internal/v1/portals.
type PortalRequest struct {
	Account   string `json:"account"`
	ReturnURL string `json:"returnUrl"`
}

// ProcessorPage is where to send the person's browser.
type ProcessorPage struct {
	URL string `json:"url"`
}

// Subscription is how an account's payments stand, for its page of the plan: GET /internal/v1/subscriptions/{account}, and what POST
// .../cancel and .../resume below it answer.
type Subscription struct {
	Entitlement Entitlement `json:"entitlement"`
	Customer    bool        `json:"customer"`  // whether the processor knows the account, so that there is a portal to send it to
	Renewing    bool        `json:"renewing"`  // a subscription is there that charges again; it can be cancelled
	Cancelled   bool        `json:"cancelled"` // one is there that ends by itself at PaidUntil; it can be resumed
	Sandbox     bool        `json:"sandbox"`   // no real money moves
}

// BillingDifference is what a comparison with the payment processor found of one subscription or, where that is empty, of what the account
// is entitled to by all that is kept of its subscriptions: the field entitlement.
type BillingDifference struct {
	Account      string `json:"account"`
	Subscription string `json:"subscription"`
	Field        string `json:"field"`
	Had          string `json:"had"` // what was kept here
	Has          string `json:"has"` // what the processor has, and what is kept here since, where it was healed
	Healed       bool   `json:"healed"`
}

// BillingReport is what a comparison of all that is kept with the payment processor came to: POST /operator/v1/billing/reconcile.
type BillingReport struct {
	Customers     int                 `json:"customers"`     // compared
	Subscriptions int                 `json:"subscriptions"` // compared
	Failed        int                 `json:"failed"`        // customers and subscriptions of which the processor could not be asked
	Differences   []BillingDifference `json:"differences"`
}

// Healed is how many of the differences are no more.
func (r BillingReport) Healed() int {
	n := 0
	for _, d := range r.Differences {
		if d.Healed {
			n++
		}
	}
	return n
}

// Summary is the report in one line.
func (r BillingReport) Summary() string {
	return fmt.Sprintf("compared %d subscriptions of %d customers: %d differences, %d healed; %d could not be compared",
		r.Subscriptions, r.Customers, len(r.Differences), r.Healed(), r.Failed)
}
