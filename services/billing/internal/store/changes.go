package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
)

type changeRow struct {
	Sequence int64 `gorm:"primaryKey;autoIncrement:false"`
	ID       string
}

func (changeRow) TableName() string { return "changes" }

// addChange numbers a change: a restored database lacks its number and id, which authquota remembers. Call it after taking all locks of
// rows, because other changes wait until tx ends.
//
// A sequence is greater than all earlier ones, and than the given version of an entitlement. It comes from the clock, so that it is greater
// than most others even if the database was set back without being noticed.
func addChange(tx *gorm.DB, now time.Time, version int64) (sequence int64, err error) {
	least := max(database.Micros(now), version+1)
	err = tx.Raw("UPDATE change_sequence SET value = CASE WHEN value < ? THEN ? ELSE value + 1 END WHERE id = 1 RETURNING value", least, least).
		Scan(&sequence).Error
	if err == nil && sequence == 0 {
		err = errors.New("table change_sequence has no row 1")
	}
	if err != nil {
		return 0, err
	}
	return sequence, tx.Create(&changeRow{Sequence: sequence, ID: uuid.NewString()}).Error
}

// HasChange reports whether the database has a change.
func (s *Store) HasChange(ctx context.Context, l highwater.Loss) (bool, error) {
	var n int64
	err := s.db.WithContext(ctx).Model(&changeRow{}).Where("sequence = ? AND id = ?", l.Number, l.ID).Count(&n).Error
	return n > 0, database.Outage(err)
}

// NewestChange returns the newest change, or the zero mark.
func (s *Store) NewestChange(ctx context.Context) (highwater.Mark, error) {
	var rows []changeRow
	err := s.db.WithContext(ctx).Order("sequence DESC").Limit(1).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return highwater.Mark{}, database.Outage(err)
	}
	return highwater.Mark{Change: api.Change(rows[0])}, nil
}

// PassLostChanges prepares a database that was set back for a reconciliation. Every entitlement gets a version above all lost ones, because
// authquota ignores older versions, and is pushed again. Purchase attempts are deleted: the caller expires their checkout sessions.
func (s *Store) PassLostChanges(ctx context.Context, operator string) error {
	all, err := highwater.Losses(s.db.WithContext(ctx))
	if err != nil {
		return err
	}
	lost := int64(0)
	for _, b := range all {
		if b.Open() {
			lost = max(lost, b.Number)
		}
	}
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		// A state that was read before the database was set back may have a ticket that is given again.
		err := errors.Join(
			tx.Exec("DELETE FROM checkouts").Error,
			tx.Exec("UPDATE tickets SET value = (SELECT max(asked) FROM subscriptions) WHERE value < (SELECT max(asked) FROM subscriptions)").Error)
		if err != nil {
			return err
		}
		var newest int64
		if err := tx.Raw("SELECT coalesce(max(version), 0) FROM entitlements").Scan(&newest).Error; err != nil {
			return err
		}
		sequence, err := addChange(tx, now, max(lost, newest))
		if err != nil {
			return err
		}
		return errors.Join(
			tx.Exec("UPDATE entitlements SET version = ?, push_at = ?, push_failures = 0 WHERE version > 0", sequence, dueNow).Error,
			audit(tx, now, operator, "database.accept", "billing", map[string]any{"lostUpTo": lost}))
	})
}
