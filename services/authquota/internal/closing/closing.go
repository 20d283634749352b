// Package closing sees to it that an account that was closed is not charged any more.
//
// Billing is told to cancel once for each thing that it says of a closed account: what it says after the account was closed may be a
// payment on a page that was open by then. To cancel what does not renew does nothing. The debt is no note that could be lost: it is that
// the account is closed and billing has spoken since it was last told.
package closing

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Debt is a closed account of which billing has yet to be told, as of what it said last.
type Debt struct {
	Account string
	Version int64 // of the entitlement
}

// Debts are kept with the entitlements.
type Debts interface {
	// Uncancelled are at most limit of them.
	Uncancelled(ctx context.Context, limit int) ([]Debt, error)
	CancelTold(ctx context.Context, d Debt) error
}

// Billing cancels everything of an account that renews.
type Billing interface {
	Cancel(ctx context.Context, accountID string) (api.Subscription, error)
}

// Interval is how often debts are looked for.
const Interval = 10 * time.Second

const batch = 100

// Deliver tells billing of every debt and returns how many are left. Where billing is away, or nil, they wait.
func Deliver(ctx context.Context, debts Debts, billing Billing) (left int, err error) {
	owed, err := debts.Uncancelled(ctx, batch)
	if err != nil || len(owed) == 0 {
		return 0, err
	}
	if billing == nil {
		return len(owed), errors.New("accounts that were closed may be charged still: OPPORTUNITY_BILLING_URL is not set")
	}
	left = len(owed)
	var failures []error
	for _, d := range owed {
		_, err := billing.Cancel(ctx, d.Account)
		if err == nil {
			err = debts.CancelTold(ctx, d)
		}
		if err == nil {
			left--
			continue
		}
		failures = append(failures, err)
		if problem.Of(err).Code == problem.ServiceUnavailable { // it is away for all
			break
		}
	}
	return left, errors.Join(failures...)
}
