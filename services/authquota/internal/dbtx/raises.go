package dbtx

import (
	"context"

	"opportunity.internal/pkg/database"
)

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
