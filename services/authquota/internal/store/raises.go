package store

import (
	"context"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

type raiseRow struct {
	ID        int64 `gorm:"primaryKey"`
	AccountID string
}

func (raiseRow) TableName() string { return "epoch_raises" }

// owe notes, in the transaction of a change, that the account's epoch must be raised.
func owe(tx *gorm.DB, id string) error { return tx.Create(&raiseRow{AccountID: id}).Error }

// Owed are the raises that were not yet delivered, oldest first: the account's or, where it is empty, everybody's up to limit.
func (s *Store) Owed(ctx context.Context, id string, limit int) ([]account.Raise, error) {
	var rows []raiseRow
	q := s.db.WithContext(ctx).Order("id").Limit(limit)
	if id != "" {
		q = q.Where("account_id = ?", id)
	}
	err := q.Find(&rows).Error
	raises := make([]account.Raise, len(rows))
	for i, r := range rows {
		raises[i] = account.Raise{ID: r.ID, Account: r.AccountID}
	}
	return raises, database.Outage(err)
}

// Delivered forgets raises that were delivered.
func (s *Store) Delivered(ctx context.Context, ids []int64) error {
	return database.Outage(s.db.WithContext(ctx).Delete(&raiseRow{}, ids).Error)
}
