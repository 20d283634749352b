// Package closing cancels the subscriptions of closed accounts.
//
// A cancellation is pending for every entitlement version that billing reports for a closed account: a later version may be a
// payment on a checkout session that was still open. Cancelling a subscription that does not renew has no effect. The pending
// state is derived from the account and its entitlement, so it cannot be lost.
package closing

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Pending is a closed account whose latest entitlement has not been cancelled.
type Pending struct {
	Account string
	Version int64 // of the entitlement
}

// Outbox stores which cancellations are pending.
type Outbox interface {
	// PendingCancels returns up to limit pending cancellations.
	PendingCancels(ctx context.Context, limit int) ([]Pending, error)
	DeleteCancel(ctx context.Context, d Pending) error
}

// Billing cancels every renewing subscription of an account.
type Billing interface {
	Cancel(ctx context.Context, accountID string) (api.Subscription, error)
}

// Interval is the time between deliveries.
const Interval = 10 * time.Second

const batch = 100

// Deliver sends pending cancellations to billing and returns the number that remain. They stay pending if billing is
// unavailable or nil.
func Deliver(ctx context.Context, outbox Outbox, billing Billing) (left int, err error) {
	pending, err := outbox.PendingCancels(ctx, batch)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	if billing == nil {
		return len(pending), errors.New("closed accounts may still be charged: OPPORTUNITY_BILLING_URL is not set")
	}
	left = len(pending)
	var failures []error
	for _, d := range pending {
		_, err := billing.Cancel(ctx, d.Account)
		if err == nil {
			err = outbox.DeleteCancel(ctx, d)
		}
		if err == nil {
			left--
			continue
		}
		failures = append(failures, err)
		if problem.Of(err).Code == problem.ServiceUnavailable { // unavailable for all accounts
			break
		}
	}
	return left, errors.Join(failures...)
}
