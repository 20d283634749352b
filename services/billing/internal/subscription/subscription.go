// Package subscription is what an account has paid for, as a pure function of what the payment processor says of its subscriptions.
//
// Only payments that were confirmed count. What is paid runs to the end of the period of the latest paid invoice; a refund of all of it
// or a dispute ends it at once, and a failed payment takes nothing from what was paid before.
package subscription

import (
	"time"

	"opportunity.internal/pkg/api"
)

// State is the whole of one subscription as the processor tells it at one moment.
type State struct {
	ID       string   // the processor's
	Customer string   // the processor's
	Account  string   // ours; empty where the processor does not know it: then it is nobody's
	Tier     api.Tier // that of a plan; Free: it is to something else, which is no matter of ours

	Ended             bool // it will never charge again: cancelled and over, or its first payment never came
	CancelAtPeriodEnd bool

	// Paid is the latest invoice that was paid and not for nothing; nil while none was.
	Paid *Payment
	// Failing says that a charge after that one was tried and failed.
	Failing bool

	// Waiting is the processor's id of a renewal's invoice that is due and that the processor would charge only later; empty: none waits.
	// It says what to do, not what was paid, and is not kept.
	Waiting string `json:"-"`
}

// Plan reports whether the subscription is to a plan.
func (s State) Plan() bool { return s.Tier != api.Free && s.Tier != "" }

// Payment is one paid invoice of a subscription.
type Payment struct {
	Invoice  string // the processor's
	Until    time.Time
	Refunded bool // all of it
	Disputed bool // and the dispute is not won
}
