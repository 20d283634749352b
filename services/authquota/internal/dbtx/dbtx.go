// Package dbtx runs the changes of authquota: each change is one transaction.
//
// The transaction includes the audit log entry and the deliveries that the change causes: mails and, if it affects what the
// account may do, an epoch increment. So no change lacks its audit entry, and the gateways and the person learn of every change.
//
// It also has the rows that changes of several features share: accounts, their entitlements and the accepted terms.
package dbtx

import (
	"context"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
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
}

// Tx is the transaction of one change.
type Tx struct {
	*gorm.DB

	Now   time.Time // of the change, with the precision of the database
	Box   secretbox.Box
	Mails mail.Writer
}

// Change runs do in a transaction, which is rolled back if do returns an error.
func (db *DB) Change(ctx context.Context, do func(tx *Tx) error) error {
	now := db.Now().UTC().Truncate(time.Microsecond) // the precision of the database, so that responses match it
	return database.Outage(db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return do(&Tx{tx, now, db.Box, db.Mails})
	}))
}

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
