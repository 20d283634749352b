package accountview

import (
	"context"
	"encoding/json"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Events returns the newest audit log entries with the given actions, by the person or about the account, its keys and its
// requests.
func (s *Store) Events(ctx context.Context, accountID string, actions []string, limit int) ([]Event, error) {
	var rows []dbtx.AuditRow
	db := s.db.WithContext(ctx)
	err := db.Where(concerns(db, accountID)).Where("action IN ?", actions).Order("id DESC").Limit(limit).Find(&rows).Error
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = toEvent(r, accountID)
	}
	return events, database.Outage(err)
}

// Failures returns the latest event of each of the given actions since then, with the number of occurrences. Anyone can cause
// failures, so they are grouped to keep other events visible.
func (s *Store) Failures(ctx context.Context, accountID string, actions []string, since time.Time) ([]Event, error) {
	var rows []struct {
		Row   dbtx.AuditRow `gorm:"embedded"`
		Times int
	}
	err := s.db.WithContext(ctx).Raw(`
		SELECT a.*, f.times FROM audit_log a JOIN (
			SELECT max(id) AS id, count(*) AS times FROM audit_log WHERE actor = ? AND action IN ? AND at >= ? GROUP BY action
		) f ON f.id = a.id ORDER BY a.id DESC`, accountID, actions, database.Micros(since)).Scan(&rows).Error
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = toEvent(r.Row, accountID)
		events[i].Times = r.Times
	}
	return events, database.Outage(err)
}

func toEvent(r dbtx.AuditRow, accountID string) Event {
	e := Event{At: database.FromMicros(r.At), Action: r.Action, Own: r.Actor == accountID}
	_ = json.Unmarshal([]byte(r.Detail), &e.Detail) // invalid detail is omitted
	return e
}
