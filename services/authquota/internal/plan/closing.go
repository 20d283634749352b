package plan

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// CancelInterval is the time between calls of CancelClosed.
const CancelInterval = 10 * time.Second

const cancelBatch = 100

// PendingCancel is a closed account whose latest entitlement has not been cancelled.
type PendingCancel struct {
	Account string
	Version int64 // of the entitlement
}

// PendingCancels returns up to limit closed accounts with an entitlement that billing has not
// cancelled.
func (s *Store) PendingCancels(ctx context.Context, limit int) (pending []PendingCancel, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT e.account_id AS account, e.version FROM entitlements e JOIN people p ON p.account_id = e.holder_id
		WHERE p.closed_at IS NOT NULL AND e.cancel_told < e.version ORDER BY e.account_id LIMIT ?`, limit).Scan(&pending).Error
	return pending, database.Outage(err)
}

// DeleteCancel records that billing cancelled this entitlement version. Later versions are pending
// again.
func (s *Store) DeleteCancel(ctx context.Context, p PendingCancel) error {
	return database.Outage(s.db.WithContext(ctx).Model(&account.EntitlementRow{}).
		Where("account_id = ? AND cancel_told < ?", p.Account, p.Version).Update("cancel_told", p.Version).Error)
}

// CancelClosed cancels the subscriptions of closed accounts and returns the number of accounts that
// remain. They stay pending if seller is unavailable or nil.
//
// A cancellation is pending for every entitlement version that billing reports for a closed
// account: a later version may be a payment on a checkout session that was still open. Cancelling a
// subscription that does not renew has no effect. The pending state is derived from the account and
// its entitlement, so it cannot be lost.
func (s *Store) CancelClosed(ctx context.Context, seller *Billing) (left int, err error) {
	pending, err := s.PendingCancels(ctx, cancelBatch)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	if seller == nil {
		return len(pending), errors.New("closed accounts may still be charged: OPPORTUNITY_BILLING_URL is not set")
	}
	left = len(pending)
	var failures []error
	for _, p := range pending {
		_, err := seller.Cancel(ctx, p.Account)
		if err == nil {
			err = s.DeleteCancel(ctx, p)
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
