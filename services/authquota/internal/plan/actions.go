package plan

import (
	"context"

	"opportunity.internal/services/authquota/internal/dbtx"
)

// RecordPlanAction writes an audit log entry for a person's action on the account's plan.
func (s *Store) RecordPlanAction(ctx context.Context, accountID, action string) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		return tx.Record(accountID, action, accountID, map[string]any{})
	})
}
