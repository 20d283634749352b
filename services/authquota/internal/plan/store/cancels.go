package store

import (
	"context"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/plan/closing"
)

// PendingCancels returns up to limit closed accounts with an entitlement that billing has not cancelled.
func (s *Store) PendingCancels(ctx context.Context, limit int) (pending []closing.Pending, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT e.account_id AS account, e.version FROM entitlements e JOIN people p ON p.account_id = e.holder_id
		WHERE p.closed_at IS NOT NULL AND e.cancel_told < e.version ORDER BY e.account_id LIMIT ?`, limit).Scan(&pending).Error
	return pending, database.Outage(err)
}

// DeleteCancel records that billing cancelled this entitlement version. Later versions are pending again.
func (s *Store) DeleteCancel(ctx context.Context, d closing.Pending) error {
	return database.Outage(s.db.WithContext(ctx).Model(&dbtx.EntitlementRow{}).
		Where("account_id = ? AND cancel_told < ?", d.Account, d.Version).Update("cancel_told", d.Version).Error)
}
