// Package store stores accounts, keys, the usage ledger and the audit log in the database.
//
// Each change is one transaction. It includes the audit log entry and, if it affects what the account may do, a pending epoch
// increment. So no change lacks its audit entry, and the gateways learn of every change.
package store

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/secretbox"
)

// Store is the database of authquota. It returns problem.Errors where the caller can react: not_found, invalid_parameter, and
// service_unavailable if the database is unavailable.
type Store struct {
	db     *database.DB
	now    func() time.Time
	box    secretbox.Box
	writer mail.Writer
}

// New returns a Store on an open database with the current schema. box seals secret values; writer writes the mails.
func New(db *database.DB, now func() time.Time, box secretbox.Box, writer mail.Writer) *Store {
	return &Store{db, now, box, writer}
}

type auditRow struct {
	ID      int64 `gorm:"primaryKey"`
	At      int64
	Actor   string
	Action  string
	Subject string
	Detail  string
}

func (auditRow) TableName() string { return "audit_log" }

// record writes the audit log entry of a change in tx. The detail must not contain a key or its digest.
func record(tx *gorm.DB, at time.Time, actor, action, subject string, detail map[string]any) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return tx.Create(&auditRow{At: database.Micros(at), Actor: actor, Action: action, Subject: subject, Detail: string(encoded)}).Error
}

func (s *Store) transaction(ctx context.Context, change func(tx *gorm.DB, now time.Time) error) error {
	now := s.now().UTC().Truncate(time.Microsecond) // the precision of the database, so that responses match it
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return change(tx, now) }))
}

func instant(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := database.FromMicros(*us)
	return &t
}

func micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := database.Micros(*t)
	return &us
}
