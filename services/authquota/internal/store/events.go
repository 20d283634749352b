package store

import (
	"context"
	"encoding/json"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

// Events are the last entries of the audit log that an account's person should see: those of the actions named, by the person or on
// the account, its keys and its requests, newest first.
func (s *Store) Events(ctx context.Context, accountID string, actions []string, limit int) ([]account.Event, error) {
	var rows []auditRow
	db := s.db.WithContext(ctx)
	err := db.Where(concerns(db, accountID)).Where("action IN ?", actions).Order("id DESC").Limit(limit).Find(&rows).Error
	events := make([]account.Event, len(rows))
	for i, r := range rows {
		events[i] = r.toEvent(accountID)
	}
	return events, database.Outage(err)
}

// Failures are the last event of each of the actions named since then, with how often it happened. Anybody can fail as often as they
// like: one row for all of them hides nothing else.
func (s *Store) Failures(ctx context.Context, accountID string, actions []string, since time.Time) ([]account.Event, error) {
	var rows []struct {
		Row   auditRow `gorm:"embedded"`
		Times int
	}
	err := s.db.WithContext(ctx).Raw(`
		SELECT a.*, f.times FROM audit_log a JOIN (
			SELECT max(id) AS id, count(*) AS times FROM audit_log WHERE actor = ? AND action IN ? AND at >= ? GROUP BY action
		) f ON f.id = a.id ORDER BY a.id DESC`, accountID, actions, database.Micros(since)).Scan(&rows).Error
	events := make([]account.Event, len(rows))
	for i, r := range rows {
		events[i] = r.Row.toEvent(accountID)
		events[i].Times = r.Times
	}
	return events, database.Outage(err)
}

func (r auditRow) toEvent(accountID string) account.Event {
	e := account.Event{At: database.FromMicros(r.At), Action: r.Action, Own: r.Actor == accountID}
	_ = json.Unmarshal([]byte(r.Detail), &e.Detail) // one that cannot be read says less
	return e
}
