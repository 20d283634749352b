package subscription

import (
	"opportunity.internal/pkg/api"
)

// Account is everything stored about one account.
type Account struct {
	ID          string
	Customer    string // the processor's id; empty if the account is not a customer
	Entitlement api.Entitlement
	States      []State
	Checkout    bool // a checkout session is open
}

// Renewing returns the plan subscriptions that will charge again.
func (a Account) Renewing() []State {
	return a.filter(func(s State) bool { return s.IsPlan() && s.Paid != nil && s.renews() })
}

// Resumable returns the paid subscriptions that are scheduled to end and can still be resumed.
func (a Account) Resumable() []State {
	return a.filter(func(s State) bool {
		_, paid := s.PaidUntil()
		return paid && !s.Ended && s.CancelAtPeriodEnd
	})
}

// Subscribed reports whether the account already has the plan, so that a second subscription would
// charge it twice.
func (a Account) Subscribed() bool { return len(a.Renewing()) > 0 || len(a.Resumable()) > 0 }

func (a Account) filter(match func(State) bool) []State {
	var out []State
	for _, state := range a.States {
		if match(state) {
			out = append(out, state)
		}
	}
	return out
}

func (a Account) purchase() api.Purchase {
	declined := a.filter(func(s State) bool { return s.IsPlan() && s.Paid == nil && !s.Ended && s.Failing })
	switch {
	case a.Subscribed():
		return api.PurchasePaid
	case len(declined) > 0:
		return api.PurchaseDeclined
	case a.Checkout:
		return api.PurchaseOpen
	}
	return api.NoPurchase
}

// Summary returns what the account's plan page shows.
func (a Account) Summary(sandbox bool) api.Subscription {
	renewing := len(a.Renewing()) > 0
	return api.Subscription{
		Entitlement: a.Entitlement, Customer: a.Customer != "", Sandbox: sandbox, Purchase: a.purchase(),
		Renewing: renewing, Cancelled: !renewing && len(a.Resumable()) > 0,
	}
}
