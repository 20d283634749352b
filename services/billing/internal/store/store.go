// Package store keeps in the database what the processor said of subscriptions, and what follows from it.
//
// A state that was read, the entitlement that it comes to, that authquota must be told, the claim of the event that was the cause, and
// the audit log are one transaction.
package store

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// Store is the database of billing. An outage of it is problem.Unavailable.
type Store struct {
	db  *database.DB
	now func() time.Time
}

// New makes a Store on an open database with a current schema.
func New(db *database.DB, now func() time.Time) *Store { return &Store{db, now} }

func (s *Store) transaction(ctx context.Context, change func(tx *gorm.DB, now time.Time) error) error {
	now := s.now().UTC().Truncate(time.Microsecond) // what is answered is what is kept
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return change(tx, now) }))
}

// Ticket is a number greater than all before. It is committed when it is returned: whatever is asked after that has a greater one.
func (s *Store) Ticket(ctx context.Context) (int64, error) {
	var ticket int64
	err := s.db.WithContext(ctx).Raw("UPDATE tickets SET value = value + 1 WHERE id = 1 RETURNING value").Scan(&ticket).Error
	if err == nil && ticket == 0 {
		err = errNoTickets
	}
	return ticket, database.Outage(err)
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

// record writes the audit entry of a change that tx makes.
func record(tx *gorm.DB, at time.Time, actor, action, subject string, detail map[string]any) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return tx.Create(&auditRow{At: database.Micros(at), Actor: actor, Action: action, Subject: subject, Detail: string(encoded)}).Error
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
