package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/setback"
)

type changeRow struct {
	Sequence int64 `gorm:"primaryKey;autoIncrement:false"`
	ID       string
}

func (changeRow) TableName() string { return "changes" }

// addChange numbers a change: a restored database lacks its number and id, which gateways remember.
// Call it after taking all locks of rows, because other changes wait until tx ends.
func addChange(tx *gorm.DB, now time.Time, above int64) (sequence int64, err error) {
	if sequence, err = nextSequence(tx, now, above); err != nil {
		return 0, err
	}
	return sequence, tx.Create(&changeRow{Sequence: sequence, ID: uuid.NewString()}).Error
}

// nextSequence returns a number greater than all earlier ones, and than above. It comes from the
// clock, so that it is greater than most others even if the database was set back without being
// noticed.
func nextSequence(tx *gorm.DB, now time.Time, above int64) (sequence int64, err error) {
	least := max(database.Micros(now), above+1)
	err = tx.Raw("UPDATE change_sequence SET value = CASE WHEN value < ? THEN ? ELSE value + 1 END WHERE id = 1 "+
		"RETURNING value", least, least).
		Scan(&sequence).Error
	if err == nil && sequence == 0 {
		err = errors.New("table change_sequence has no row 1")
	}
	return sequence, err
}

// PassLostChanges prepares a database that was set back for a reconciliation. Every entitlement
// gets a version above those of all claims, because authquota ignores older versions, and is pushed
// again. Purchase attempts are deleted: the caller expires their checkout sessions.
func (s *Store) PassLostChanges(ctx context.Context, operator string) error {
	claims, err := setback.Store{DB: s.db}.Claims(ctx)
	if err != nil {
		return err
	}
	lost := int64(0)
	for _, text := range claims {
		m, _ := setback.Parse(text)
		lost = max(lost, m.Sequence)
	}
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := tx.Exec("DELETE FROM checkouts").Error; err != nil {
			return err
		}
		// A state that was read before the database was set back may have a later ticket.
		var newest int64
		err := tx.Raw("SELECT max(n) FROM (SELECT 0 AS n UNION SELECT max(version) FROM entitlements UNION SELECT " +
			"max(asked) FROM subscriptions) newest").Scan(&newest).Error
		if err != nil {
			return err
		}
		sequence, err := addChange(tx, now, max(lost, newest))
		if err != nil {
			return err
		}
		return errors.Join(
			tx.Exec("UPDATE entitlements SET version = ?, push_at = ? WHERE version > 0", sequence, dueNow).
				Error,
			audit(tx, now, operator, "database.accept", "billing", map[string]any{"lostUpTo": lost}))
	})
}

// PushAgain makes every entitlement due, unless it was done for this generation of authquota's
// database before.
func (s *Store) PushAgain(ctx context.Context, generation string) (again bool, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, _ time.Time) error {
		done := tx.Exec("UPDATE pushed SET generation = ? WHERE generation <> ?", generation, generation)
		if again = done.RowsAffected > 0; done.Error != nil || !again {
			return done.Error
		}
		return tx.Exec("UPDATE entitlements SET push_at = ? WHERE version > 0", dueNow).Error
	})
	return again, err
}
