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
		Standing: account.Standing{Granted: api.Tier(r.Tier)}, ID: r.ID, SuspendedAt: instant(r.SuspendedAt), SuspendReason: r.SuspendReason,
		CreatedAt: database.FromMicros(r.CreatedAt),
	}
	if r.MergedInto != nil {
		a.MergedInto = *r.MergedInto
	}
	return a
}

func fromAccount(a account.Account) accountRow {
	row := accountRow{
		ID: a.ID, Tier: string(a.Granted), SuspendedAt: micros(a.SuspendedAt), SuspendReason: a.SuspendReason,
		CreatedAt: database.Micros(a.CreatedAt),
	}
	if a.MergedInto != "" {
		row.MergedInto = &a.MergedInto
	}
	return row
}

// withPaid returns the account with its entitlements.
func (r accountRow) withPaid(tx *gorm.DB) (account.Account, error) {
	a := r.toAccount()
	paid, err := paidBy(tx, r.ID)
	a.Paid = paid[r.ID]
	return a, err
}

// lockAccount reads an account and locks it until tx ends, so that no other transaction changes it or issues it a key. On
// SQLite the transaction itself is the lock. It returns an error for an account that was merged into another one or closed.
func lockAccount(tx *gorm.DB, id string) (account.Account, error) {
	var row accountRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.NotFound()
	}
	if err == nil && row.MergedInto != nil {
		err = account.Merged(*row.MergedInto)
	}
	if err != nil {
		return row.toAccount(), err
	}
	a, err := row.withPaid(tx)
	if err == nil {
		a.ClosedAt, err = closedAt(tx, id)
	}
	if a.ClosedAt != nil {
		err = account.Closed(*a.ClosedAt)
	}
	return a, err
}

// closedAt returns when an account was closed, or nil.
func closedAt(tx *gorm.DB, id string) (*time.Time, error) {
	var closed []int64
	err := tx.Raw("SELECT closed_at FROM people WHERE account_id = ? AND closed_at IS NOT NULL", id).Scan(&closed).Error
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	return instant(&closed[0]), nil
}

// ChangeAccount applies change on behalf of actor and returns the changed account.
func (s *Store) ChangeAccount(ctx context.Context, actor, id string, change account.Change) (account.Account, error) {
	var changed account.Account
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		a, err := lockAccount(tx, id)
		if err != nil {
			return err
		}
		before := a.TierAt(now)
		detail := change.Apply(&a, now)
		changed = a
		if detail == nil {
			return nil
		}
		row := fromAccount(a)
		if err := tx.Save(&row).Error; err != nil {
			return err
		}
		var notice error
		if change.Mail != "" {
			notice = s.notify(tx, now, id, change.Mail, change.Data)
		}
		return errors.Join(
			notice, record(tx, now, actor, change.Action, id, detail), queueRaise(tx, id), s.notifyTier(tx, now, before, a))
	})
	return changed, err
}

// notifyTier posts a mail if the account's tier differs from before.
func (s *Store) notifyTier(tx *gorm.DB, now time.Time, before api.Tier, a account.Account) error {
	after := a.TierAt(now)
	if after == before {
		return nil
	}
	return s.notify(tx, now, a.ID, "tier-changed", map[string]string{"from": string(before), "to": string(after)})
}
