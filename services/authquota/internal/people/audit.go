package people

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

// Event is an audit log entry for the account's person.
type Event struct {
	At     time.Time
	Action string
	Own    bool // by the person, as far as is known
	Auto   bool // without an operator
	Detail map[string]any
	Times  int // number of occurrences, if it stands for several
}

// Actions maps the actions that people see to their text. Other actions are not shown.
var Actions = map[string]string{
	"person.sign_up":              "Account created",
	"person.sign_in":              "Signed in",
	"person.password_change":      "Password changed",
	"person.password_reset_asked": "Password reset requested",
	"person.address_change_asked": "Email address change requested",
	"person.address_change":       "Email address changed",
	"person.address_change_off":   "Email address change cancelled",
	"factor.add":                  "Second factor added",
	"factor.remove":               "Second factor removed",
	"factor.reset_asked":          "Authenticator reported lost",
	"factor.reset_begin":          "Authenticator removal scheduled",
	"factor.reset_cancel":         "Authenticator removal cancelled",
	"recovery_code.use":           "Recovery code used",
	"recovery_code.renew":         "New recovery codes created",
	"session.end":                 "Signed out",
	"key.request":                 "Key requested",
	"key.withdraw":                "Key request withdrawn",
	"key.approve":                 "Key request approved",
	"key.decline":                 "Key request declined",
	"key.issue":                   "Key created",
	"key.import":                  "Older key added",
	"key.rename":                  "Key renamed",
	"key.rotate":                  "Key rotated",
	"key.revoke":                  "Key revoked",
	"terms.accept":                "Terms of use accepted",
	"account.merge":               "Older key connected",
	"account.suspend":             "Account suspended",
	"account.resume":              "Account resumed",
	"account.grant":               "Plan changed",
	"plan.upgrade":                "Checkout opened",
	"plan.portal":                 "Payment portal opened",
	"plan.cancel":                 "Plan cancellation requested",
	"plan.resume":                 "Plan resumption requested",
}

// Failures maps actions that anyone can cause to their text. Each is shown in one row with the
// number of occurrences.
var Failures = map[string]string{
	"person.sign_in_failed": "Failed to sign in",
	"person.confirm_failed": "Failed to confirm",
}

// Events returns the newest audit log entries with the given actions, by the person or about the
// account, its keys and its requests.
func (s *Store) Events(ctx context.Context, accountID string, actions []string, limit int) ([]Event, error) {
	var rows []accountdb.AuditRow
	db := s.db.WithContext(ctx)
	err := db.Where(concerns(db, accountID)).Where("action IN ?", actions).Order("id DESC").Limit(limit).Find(&rows).Error
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = toEvent(r, accountID)
	}
	return events, database.Outage(err)
}

// Failures returns the latestEntries event of each of the given actions since then, with the number
// of occurrences. Anyone can cause failures, so they are grouped to keep other events visible.
func (s *Store) Failures(ctx context.Context, accountID string, actions []string, since time.Time) ([]Event, error) {
	var rows []struct {
		Row   accountdb.AuditRow `gorm:"embedded"`
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

func toEvent(r accountdb.AuditRow, accountID string) Event {
	e := Event{At: database.FromMicros(r.At), Action: r.Action, Own: r.Actor == accountID, Auto: r.Actor == keys.AutoApproval}
	_ = json.Unmarshal([]byte(r.Detail), &e.Detail) // invalid detail is omitted
	return e
}

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
	var rows []accountdb.AuditRow
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

// concerns selects entries about an account: by its person, or about the account, its keys and its
// requests.
func concerns(db *gorm.DB, id string) *gorm.DB {
	return db.Where("actor = ? OR subject = ?", id, id).
		Or("subject IN (SELECT id FROM api_keys WHERE account_id = ?)", id).
		Or("subject IN (SELECT id FROM key_requests WHERE account_id = ?)", id)
}
