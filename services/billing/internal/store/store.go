// Package store persists customers, purchase attempts, subscription states, entitlements and the
// outbox of pushes to authquota.
//
// One transaction covers a new state, the entitlement derived from it, its pending push and the
// audit log.
package store

import (
	"context"
	"embed"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// Migrations has numbered SQL files, as database.Migrate needs them. Never edit a released file:
// add one with the next number.
//
//go:embed migrations/postgres/*.sql migrations/sqlite/*.sql
var Migrations embed.FS

// Store is billing's database. Its methods return problem.Unavailable during a database outage.
type Store struct {
	db  *database.DB
	now func() time.Time
}

// New returns a Store on an open database whose schema is current.
func New(db *database.DB, now func() time.Time) *Store { return &Store{db, now} }

func (s *Store) transaction(ctx context.Context, change func(tx *gorm.DB, now time.Time) error) error {
	now := s.now().UTC().Truncate(time.Microsecond) // the precision that is stored
	return database.Outage(s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return change(tx, now) }))
}

// Ticket returns a number greater than all it returned before. The number is committed before it is
// returned.
func (s *Store) Ticket(ctx context.Context) (ticket int64, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		ticket, err = nextSequence(tx, now, 0)
		return err
	})
	return ticket, err
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

func audit(tx *gorm.DB, at time.Time, actor, action, subject string, detail map[string]any) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return tx.Create(&auditRow{At: database.Micros(at), Actor: actor, Action: action, Subject: subject,
		Detail: string(encoded)}).Error
}

func timeOrNil(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := database.FromMicros(*us)
	return &t
}

func microsOrNil(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := database.Micros(*t)
	return &us
}
