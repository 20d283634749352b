package subscription

import (
	"opportunity.internal/pkg/api"
)

// Standing is all that is kept of one account.
type Standing struct {
	Account     string
	Customer    string // the processor's; empty where it does not know the account
	Entitlement api.Entitlement
	States      []State
}

// Renewing are the subscriptions to a plan that charge again.
func (s Standing) Renewing() []State {
	return s.which(func(s State) bool { return s.Plan() && s.Paid != nil && !s.Ended && !s.CancelAtPeriodEnd })
}

// Ending are those that end by themselves and can be resumed before.
func (s Standing) Ending() []State {
	return s.which(func(s State) bool {
		_, paid := s.Paying()
		return paid && !s.Ended && s.CancelAtPeriodEnd
	})
}

// Sold reports whether the account has what is on offer, so that another subscription would charge it twice for the same time.
func (s Standing) Sold() bool { return len(s.Renewing()) > 0 || len(s.Ending()) > 0 }

func (s Standing) which(is func(State) bool) []State {
	var out []State
	for _, state := range s.States {
		if is(state) {
			out = append(out, state)
		}
	}
	return out
}

// Page is the standing as the account's page of the plan shows it.
func (s Standing) Page(sandbox bool) api.Subscription {
	renewing := len(s.Renewing()) > 0
	return api.Subscription{
		Entitlement: s.Entitlement, Customer: s.Customer != "", Sandbox: sandbox,
		Renewing: renewing, Cancelled: !renewing && len(s.Ending()) > 0,
	}
}
