package account

import (
	"slices"
	"time"

	"opportunity.internal/pkg/api"
)

// Standing determines the tier of an account.
type Standing struct {
	Granted api.Tier          // by an operator, or free
	Paid    []api.Entitlement // of the account and of accounts merged into it
}

// TierAt returns the tier at a time: the best of the granted and the paid ones.
func (s Standing) TierAt(at time.Time) api.Tier {
	best := s.Granted
	for _, e := range s.Paid {
		if e.Live(at) {
			best = Better(best, e.Tier)
		}
	}
	return best
}

// ChangeAfter returns the next automatic change of the tier after now. ok is false if there is none.
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

// PaidAt returns the most relevant entitlement: the one with the best tier in effect, then the one that ends last. It returns
// nil if there is none.
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
	return e.PaidUntil != nil && e.PaidUntil.After(*other.PaidUntil) // with the same tier, both have an end or neither has
}

// Pays reports whether a paid period is in effect or will be charged again.
func (s Standing) Pays(at time.Time) bool {
	return slices.ContainsFunc(s.Paid, func(e api.Entitlement) bool { return e.Renews || e.Live(at) })
}
