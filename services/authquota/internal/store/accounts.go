package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

type accountRow struct {
	ID            string `gorm:"primaryKey"`
	Tier          string
	SuspendedAt   *int64
	SuspendReason string
	MergedInto    *string
	CreatedAt     int64 `gorm:"autoCreateTime:false"`
}

func (accountRow) TableName() string { return "accounts" }

func (r accountRow) toAccount() account.Account {
	a := account.Account{
		ID: r.ID, Tier: api.Tier(r.Tier), SuspendedAt: instant(r.SuspendedAt), SuspendReason: r.SuspendReason,
		CreatedAt: database.FromMicros(r.CreatedAt),
	}
	if r.MergedInto != nil {
		a.MergedInto = *r.MergedInto
	}
	return a
}

func fromAccount(a account.Account) accountRow {
	row := accountRow{
		ID: a.ID, Tier: string(a.Tier), SuspendedAt: micros(a.SuspendedAt), SuspendReason: a.SuspendReason,
		CreatedAt: database.Micros(a.CreatedAt),
	}
	if a.MergedInto != "" {
		row.MergedInto = &a.MergedInto
	}
	return row
}

// lockAccount reads an account and keeps everybody else from changing it, or issuing it a key, until tx ends. On SQLite the
// transaction itself does so. An account that another one has taken over can no longer be changed.
func lockAccount(tx *gorm.DB, id string) (account.Account, error) {
	var row accountRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.NotFound()
	}
	if err == nil && row.MergedInto != nil {
		err = account.Merged(*row.MergedInto)
	}
	return row.toAccount(), err
}

// ChangeAccount does an act on an account, on behalf of actor, and returns the account as it is then.
func (s *Store) ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error) {
	var changed account.Account
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		a, err := lockAccount(tx, id)
		if err != nil {
			return err
		}
		before := a.Tier
		detail := change.Apply(&a, now)
		changed = a
		if detail == nil {
			return nil
		}
		told := map[string]string{}
		if a.Tier != before {
			told["from"], told["to"] = string(before), string(a.Tier)
		}
		row := fromAccount(a)
		if err := tx.Save(&row).Error; err != nil {
			return err
		}
		return errors.Join(record(tx, now, actor, change.Action, id, detail), owe(tx, id), s.tell(tx, now, id, change.Mail, told))
	})
	return changed, err
}
