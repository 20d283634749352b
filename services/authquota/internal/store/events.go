package store

import (
	"context"
	"encoding/json"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

// Events are the last entries of the audit log that an account's person should see: those of the actions named, by the person or on
// the account, newest first.
func (s *Store) Events(ctx context.Context, accountID string, actions []string, limit int) ([]account.Event, error) {
	var rows []auditRow
	err := s.db.WithContext(ctx).
		Where("(actor = ? OR subject = ?) AND action IN ?", accountID, accountID, actions).
		Order("id DESC").Limit(limit).Find(&rows).Error
	events := make([]account.Event, len(rows))
	for i, r := range rows {
		events[i] = account.Event{At: database.FromMicros(r.At), Action: r.Action, Own: r.Actor == accountID}
		_ = json.Unmarshal([]byte(r.Detail), &events[i].Detail) // one that cannot be read says less
	}
	return events, database.Outage(err)
}
