package store

import (
	"context"

	"opportunity.internal/pkg/database"
)

// Uncancelled are accounts that were closed by their person and renew all the same, as far as billing has told: because nobody has told
// billing yet, or somebody paid on a page that was open when the account was closed. That is all there is of the debt, so it cannot be
// lost, and it is paid once billing says that nothing renews.
func (s *Store) Uncancelled(ctx context.Context) (ids []string, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT e.account_id FROM entitlements e JOIN people p ON p.account_id = e.holder_id
		WHERE e.renews AND p.closed_at IS NOT NULL ORDER BY e.account_id`).Scan(&ids).Error
	return ids, database.Outage(err)
}
