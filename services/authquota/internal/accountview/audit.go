package accountview

import (
	"context"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Audit returns entries of the audit log, newest first. more reports whether older entries follow.
func (s *Store) Audit(ctx context.Context, search AuditSearch) (entries []AuditEntry, more bool, err error) {
	q := s.db.WithContext(ctx).Order("id DESC").Limit(search.Limit + 1)
	if search.Account != "" {
		q = q.Where(concerns(s.db.WithContext(ctx), search.Account))
	}
	if search.Action != "" {
		q = q.Where("substr(action, 1, ?) = ?", len(search.Action), search.Action)
	}
	if search.Actor != "" {
		q = q.Where("actor = ?", search.Actor)
	}
	if !search.Since.IsZero() {
		q = q.Where("at >= ?", database.Micros(search.Since))
	}
	if !search.Until.IsZero() {
		q = q.Where("at < ?", database.Micros(search.Until))
	}
	if search.Before > 0 {
		q = q.Where("id < ?", search.Before)
	}
	var rows []dbtx.AuditRow
	err = q.Find(&rows).Error
	if more = len(rows) > search.Limit; more {
		rows = rows[:search.Limit]
	}
	entries = make([]AuditEntry, len(rows))
	for i, r := range rows {
		entries[i] = AuditEntry{
			ID: r.ID, At: database.FromMicros(r.At), Actor: r.Actor, Action: r.Action, Subject: r.Subject, Detail: r.Detail,
		}
	}
	return entries, more, database.Outage(err)
}

// concerns selects entries about an account: by its person, or about the account, its keys and its requests.
func concerns(db *gorm.DB, id string) *gorm.DB {
	return db.Where("actor = ? OR subject = ?", id, id).
		Or("subject IN (SELECT id FROM api_keys WHERE account_id = ?)", id).
		Or("subject IN (SELECT id FROM key_requests WHERE account_id = ?)", id)
}
