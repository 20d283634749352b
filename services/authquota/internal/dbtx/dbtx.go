// Package dbtx runs the changes of authquota: each change is one transaction.
//
// The transaction includes the audit log entry and the deliveries that the change causes: mails and, if it affects what the
// account may do, an epoch increment. So no change lacks its audit entry, and the gateways and the person learn of every change.
//
// It also has the rows that changes of several features share: accounts, their entitlements and the accepted terms.
package dbtx

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/journal"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/secretbox"
)

// DB is the database of authquota. The stores of the features return problem.Errors where the caller can react: not_found,
// invalid_parameter, and service_unavailable if the database is unavailable.
type DB struct {
	*database.DB

	Now   func() time.Time
	Box   secretbox.Box // seals secret values
	Mails mail.Writer

	Journal   Journal                                      // nil: lines wait in the database
	Committed func(ctx context.Context, change api.Change) // called after each change of Changed; may be nil
}

// Journal stores lines outside the database.
type Journal interface {
	// Write returns once the line is stored.
	Write(l journal.Line) error
}

// Tx is the transaction of one change.
type Tx struct {
	*gorm.DB

	Now   time.Time // of the change, with the precision of the database
	Box   secretbox.Box
	Mails mail.Writer

	audit   []journal.Entry
	changed []changed

	numbered bool // is a change in the journal
}

// Change runs do in a transaction, which is rolled back if do returns an error. If do calls Changed, Change returns nil only after the
// journal has the line of the change; otherwise it returns ErrNotJournaled.
func (db *DB) Change(ctx context.Context, do func(tx *Tx) error) error {
	now := db.Now().UTC().Truncate(time.Microsecond) // the precision of the database, so that responses match it
	var line *journal.Line
	err := db.WithContext(ctx).Transaction(func(gormTx *gorm.DB) error {
		tx := &Tx{DB: gormTx, Now: now, Box: db.Box, Mails: db.Mails}
		err := do(tx)
		if err == nil && tx.numbered {
			line, err = tx.writeLine()
		}
		return err
	})
	if err != nil || line == nil {
		return database.Outage(err)
	}
	if err := db.deliver(context.WithoutCancel(ctx), *line); err != nil {
		return errors.Join(ErrNotJournaled, err)
	}
	return nil
}

// ErrNotJournaled is wrapped by the error of a change that is saved but not in the journal yet. The journal gets it later.
var ErrNotJournaled = errors.New("change saved but not in the journal")

// Instant returns the time of a nullable column.
func Instant(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := database.FromMicros(*us)
	return &t
}

// Micros returns the nullable column of a time.
func Micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := database.Micros(*t)
	return &us
}

// DoUnless runs do and rolls it back if skip is set, so that timing does not reveal whether there was something to do.
func (tx *Tx) DoUnless(skip bool, do func() error) error {
	if err := tx.SavePoint("unless").Error; err != nil {
		return err
	}
	audit, changed := tx.audit, tx.changed
	if err := do(); err != nil || !skip {
		return err
	}
	tx.audit, tx.changed = audit, changed
	return tx.RollbackTo("unless").Error
}

// AuditRow is an entry of the audit log.
type AuditRow struct {
	ID      int64 `gorm:"primaryKey"`
	At      int64
	Actor   string
	Action  string
	Subject string
	Detail  string // JSON
}

// TableName implements gorm's Tabler.
func (AuditRow) TableName() string { return "audit_log" }

// Record writes the audit log entry of a change. The detail must not contain a key or its digest.
func (tx *Tx) Record(actor, action, subject string, detail map[string]any) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	tx.audit = append(tx.audit, journal.Entry{Act: journal.Act{Actor: actor, Action: action, Subject: subject}, Detail: encoded})
	return tx.Create(&AuditRow{At: database.Micros(tx.Now), Actor: actor, Action: action, Subject: subject, Detail: string(encoded)}).Error
}

// Raise is a pending epoch increment of a changed account.
type Raise struct {
	ID      int64
	Account string
}

type raiseRow struct {
	ID        int64 `gorm:"primaryKey"`
	AccountID string
}

func (raiseRow) TableName() string { return "epoch_raises" }

// QueueRaise records that the epoch of an account must be incremented.
func (tx *Tx) QueueRaise(accountID string) error {
	return tx.Create(&raiseRow{AccountID: accountID}).Error
}

// PendingRaises returns up to limit undelivered increments, oldest first, of one account, or of all if id is empty.
func (db *DB) PendingRaises(ctx context.Context, id string, limit int) ([]Raise, error) {
	var rows []raiseRow
	q := db.WithContext(ctx).Order("id").Limit(limit)
	if id != "" {
		q = q.Where("account_id = ?", id)
	}
	err := q.Find(&rows).Error
	raises := make([]Raise, len(rows))
	for i, r := range rows {
		raises[i] = Raise{ID: r.ID, Account: r.AccountID}
	}
	return raises, database.Outage(err)
}

// DeleteRaises deletes delivered increments.
func (db *DB) DeleteRaises(ctx context.Context, ids []int64) error {
	return database.Outage(db.WithContext(ctx).Delete(&raiseRow{}, ids).Error)
}
