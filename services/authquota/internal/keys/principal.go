package keys

import (
	"fmt"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
)

// clockTolerance limits the delay of the clock of a gateway that ends paid periods on time by that clock.
const clockTolerance = time.Minute

// Principal returns the key as gateways see it at now, revoked and expired keys included. epoch must have been read before the key and
// suspended. It returns an error if the tier of the account is unknown.
//
// A paid period that ended within clockTolerance is still the tier, and its end the next change. So each gateway ends it by its own
// clock. There is one next change, so this holds only if no other follows.
func (k Key) Principal(now time.Time, tiers account.TierTable, suspended bool, epoch int64) (api.Principal, error) {
	if _, _, follows := k.ChangeAfter(now); !follows {
		now = now.Add(-clockTolerance)
	}
	current := k.TierAt(now)
	limits, ok := tiers[current]
	if !ok {
		return api.Principal{}, fmt.Errorf("account %s has the unknown tier %q", k.Account, current)
	}
	p := api.Principal{
		Key: k.ID, Account: k.Account, Tier: current, Limits: limits, Epoch: epoch,
		ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Suspended: suspended,
	}
	if at, to, ok := k.ChangeAfter(now); ok {
		p.Next = &api.PrincipalChange{At: at, Tier: to, Limits: tiers[to]}
	}
	return p, nil
}
