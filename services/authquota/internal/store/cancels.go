package store

import (
	"context"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/closing"
)

// Uncancelled are closed accounts of which billing has yet to be told to cancel, at most limit.
func (s *Store) Uncancelled(ctx context.Context, limit int) (debts []closing.Debt, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT e.account_id AS account, e.version FROM entitlements e JOIN people p ON p.account_id = e.holder_id
		WHERE p.closed_at IS NOT NULL AND e.cancel_told < e.version ORDER BY e.account_id LIMIT ?`, limit).Scan(&debts).Error
	return debts, database.Outage(err)
}

// CancelTold strikes a debt out. What billing says later is another one.
func (s *Store) CancelTold(ctx context.Context, d closing.Debt) error {
	return database.Outage(s.db.WithContext(ctx).Model(&entitlementRow{}).
		Where("account_id = ? AND cancel_told < ?", d.Account, d.Version).Update("cancel_told", d.Version).Error)
}
