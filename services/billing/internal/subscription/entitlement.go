package subscription

import (
	"slices"
	"time"

	"opportunity.internal/pkg/api"
)

// DeriveEntitlement returns the entitlement that the subscriptions of one account add up to,
// whatever their order. Version is left 0.
//
// The best paid tier counts, with the latest end of that tier. The result does not depend on the
// clock: readers compare PaidUntil with their own.
func DeriveEntitlement(states []State) api.Entitlement {
	e := api.Entitlement{Tier: api.BaseTier}
	var failing, renewing bool // of the subscriptions that provide e
	for _, s := range states {
		until, paid := s.PaidUntil()
		if !paid {
			continue
		}
		switch better := compare(s.Tier, until, e); {
		case better > 0:
			e.Tier, e.PaidUntil, failing, renewing = s.Tier, &until, s.Failing, s.renews()
		case better == 0:
			failing, renewing = failing && s.Failing, renewing || s.renews()
		}
	}
	if e.PaidUntil == nil {
		e.Trouble = trouble(states)
		return e
	}
	// Another subscription of the same tier may end earlier but renew, and so continue after this
	// one.
	e.Renews = renewing || slices.ContainsFunc(states, func(s State) bool {
		_, paid := s.PaidUntil()
		return paid && s.Tier == e.Tier && s.renews() && !s.Failing
	})
	if failing {
		e.Trouble = api.PaymentFailed
	}
	return e
}

// compare returns a positive number if tier paid until the given time is better than e, a negative
// one if it is worse, and 0 if equal.
func compare(tier api.Tier, until time.Time, e api.Entitlement) int {
	if e.PaidUntil == nil {
		return 1
	}
	if d := tier.Rank() - e.Tier.Rank(); d != 0 {
		return d
	}
	return until.Compare(*e.PaidUntil)
}

// trouble returns the most serious reason why nothing is paid for. A first payment that never
// arrived stops counting once the processor has ended the subscription.
func trouble(states []State) api.Trouble {
	var found api.Trouble
	for _, s := range states {
		switch {
		case !s.IsPlan():
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
