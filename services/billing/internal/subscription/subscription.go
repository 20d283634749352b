// Package subscription derives what an account has paid for from the state of its subscriptions at
// the payment processor.
//
// Only confirmed payments count. Access runs to the end of the period of the latest paid invoice. A
// full refund or a dispute ends it at once; a failed payment does not shorten it.
package subscription

import (
	"time"

	"opportunity.internal/pkg/api"
)

// State is a snapshot of one subscription as the processor reports it. The store saves it as JSON
// under these field names.
type State struct {
	ID       string   // the processor's
	Customer string   // the processor's
	Account  string   // ours; empty if the processor does not name one
	Tier     api.Tier // of the plan; api.BaseTier for any other product, which billing ignores

	Ended             bool // never charges again: canceled, or the first payment never arrived
	CancelAtPeriodEnd bool

	// Paid is the latest paid invoice with an amount above zero; nil if there is none.
	Paid *Payment
	// Failing reports whether a charge after Paid was attempted and failed.
	Failing bool
}

// IsPlan reports whether the subscription is to a plan rather than to another product.
func (s State) IsPlan() bool { return s.Tier != api.BaseTier && s.Tier != "" }

// PaidUntil returns the end of the paid period. ok is false if nothing is paid, or if the payment
// was refunded or is disputed.
func (s State) PaidUntil() (until time.Time, ok bool) {
	if !s.IsPlan() || s.Paid == nil || s.Paid.Refunded || s.Paid.Disputed {
		return time.Time{}, false
	}
	return s.Paid.Until.UTC(), true
}

func (s State) renews() bool { return !s.Ended && !s.CancelAtPeriodEnd }

// Payment is one paid invoice of a subscription.
type Payment struct {
	Invoice  string    // the processor's id
	Until    time.Time // end of the paid period
	Refunded bool      // in full
	Disputed bool      // and the dispute has not been won
}
