// Package store keeps accounts, keys, the usage ledger and the audit log in the database.
//
// Every change is one transaction: the change, its entry in the audit log and, where it decides what calls of the account may
// do, a row that says that the account's epoch must be raised. So no change can be kept without its trace, nor be forgotten
// half-way to the gateways.
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

// Store is the database of authquota. Its errors are problem.Errors where a caller can do something about them: not_found,
// invalid_parameter, and service_unavailable when the database is out of reach.
type Store struct {
	db     *database.DB
	now    func() time.Time
	box    secretbox.Box
	writer mail.Writer
}

// New makes a Store on an open database with a current schema. What nobody may read there is sealed by box; writer writes what
// people are told by mail.
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

// record writes the audit entry of a change that tx makes. A detail never holds a key, nor a digest of one.
func record(tx *gorm.DB, at time.Time, actor, action, subject string, detail map[string]any) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return tx.Create(&auditRow{At: database.Micros(at), Actor: actor, Action: action, Subject: subject, Detail: string(encoded)}).Error
}

func (s *Store) transaction(ctx context.Context, change func(tx *gorm.DB, now time.Time) error) error {
	now := s.now().UTC().Truncate(time.Microsecond) // what is answered is what is kept
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
