package account

import (
	"slices"
	"time"

	"opportunity.internal/pkg/api"
)

// Standing is what the tier of an account comes from. Nothing else decides it.
type Standing struct {
	Granted api.Tier          // by an operator, or free
	Paid    []api.Entitlement // its own, and those of accounts that it has taken over
}

// TierAt is the tier at an instant: the best of what was granted and what is paid for then.
func (s Standing) TierAt(at time.Time) api.Tier {
	best := s.Granted
	for _, e := range s.Paid {
		if e.Live(at) {
			best = Better(best, e.Tier)
		}
	}
	return best
}

// ChangeAfter is the first instant after now at which the tier becomes another one by itself, and which; ok is false where it stays.
func (s Standing) ChangeAfter(now time.Time) (at time.Time, to api.Tier, ok bool) {
	for _, e := range s.Paid {
		if e.Live(now) && s.TierAt(*e.PaidUntil) != s.TierAt(now) && (!ok || e.PaidUntil.Before(at)) {
			at, ok = *e.PaidUntil, true
		}
	}
	if ok {
		to = s.TierAt(at)
	}
	return at, to, ok
}

// PaidAt is what tells most of the account's payments: the best of what is paid for, then what lasts longest. It is nil where billing
// has never told anything.
func (s Standing) PaidAt(at time.Time) *api.Entitlement {
	var most *api.Entitlement
	for i := range s.Paid {
		if e := &s.Paid[i]; most == nil || outdoes(e, most, at) {
			most = e
		}
	}
	return most
}

func outdoes(e, other *api.Entitlement, at time.Time) bool {
	switch {
	case e.Live(at) != other.Live(at):
		return e.Live(at)
	case e.Tier != other.Tier:
		return Better(e.Tier, other.Tier) == e.Tier
	}
	return e.PaidUntil != nil && e.PaidUntil.After(*other.PaidUntil) // the same tier: both have an end, or none has
}

// Pays reports whether something is paid for at an instant, or is going to be charged again.
func (s Standing) Pays(at time.Time) bool {
	return slices.ContainsFunc(s.Paid, func(e api.Entitlement) bool { return e.Renews || e.Live(at) })
}
