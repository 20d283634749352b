package subscription

import (
	"slices"
	"time"

	"opportunity.internal/pkg/api"
)

// Entitle is what the subscriptions of one account come to, in whatever order they are given. The Version is left 0.
//
// Of what is paid for the best tier counts, and of that the longest. It does not depend on the clock: whoever reads it compares
// PaidUntil with theirs.
func Entitle(states []State) api.Entitlement {
	e := api.Entitlement{Tier: api.Free}
	var failing, renewing bool // of those that give what counts
	for _, s := range states {
		until, paid := s.Paying()
		if !paid {
			continue
		}
		renews := !s.Ended && !s.CancelAtPeriodEnd
		switch better := compare(s.Tier, until, e); {
		case better > 0:
			e.Tier, e.PaidUntil, failing, renewing = s.Tier, &until, s.Failing, renews
		case better == 0:
			failing, renewing = failing && s.Failing, renewing || renews
		}
	}
	if e.PaidUntil == nil {
		e.Trouble = trouble(states)
		return e
	}
	// Another one of the tier that renews earlier goes on when this one ends.
	e.Renews = renewing || slices.ContainsFunc(states, func(s State) bool {
		_, paid := s.Paying()
		return paid && s.Tier == e.Tier && !s.Ended && !s.CancelAtPeriodEnd && !s.Failing
	})
	if failing {
		e.Trouble = api.PaymentFailed
	}
	return e
}

// Paying is the end of what is paid for; paid is false where nothing is, or no more: it was given back, or is about to be taken back.
func (s State) Paying() (until time.Time, paid bool) {
	if !s.Plan() || s.Paid == nil || s.Paid.Refunded || s.Paid.Disputed {
		return time.Time{}, false
	}
	return s.Paid.Until.UTC(), true
}

// compare is above 0 where a tier until then is better than what e has.
func compare(tier api.Tier, until time.Time, e api.Entitlement) int {
	if e.PaidUntil == nil {
		return 1
	}
	if d := rank(tier) - rank(e.Tier); d != 0 {
		return d
	}
	return until.Compare(*e.PaidUntil)
}

func rank(t api.Tier) int {
	return slices.IndexFunc(api.Tiers, func(l api.TierLimits) bool { return l.Tier == t })
}

// trouble is why nothing is paid for, the gravest first. A first payment that never came troubles nobody any more once the processor
// has given it up.
func trouble(states []State) api.Trouble {
	var found api.Trouble
	for _, s := range states {
		switch {
		case !s.Plan():
		case s.Paid != nil && s.Paid.Disputed:
			return api.Disputed
		case s.Paid != nil && s.Paid.Refunded:
			found = api.Refunded
		case s.Failing && (s.Paid != nil || !s.Ended) && found == api.NoTrouble:
			found = api.PaymentFailed
		}
	}
	return found
}
