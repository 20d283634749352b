package dbtx

import (
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

// AccountRow is an account.
type AccountRow struct {
	ID            string `gorm:"primaryKey"`
	Tier          string
	SuspendedAt   *int64
	SuspendReason string
	MergedInto    *string
	CreatedAt     int64 `gorm:"autoCreateTime:false"`
}

// TableName implements gorm's Tabler.
func (AccountRow) TableName() string { return "accounts" }

// Account returns the account without its entitlements and without the time at which it was closed.
func (r AccountRow) Account() account.Account {
	a := account.Account{
		Standing: account.Standing{Granted: api.Tier(r.Tier)}, ID: r.ID, SuspendedAt: Instant(r.SuspendedAt), SuspendReason: r.SuspendReason,
		CreatedAt: database.FromMicros(r.CreatedAt),
	}
	if r.MergedInto != nil {
		a.MergedInto = *r.MergedInto
	}
	return a
}

// WithPaid returns the account with its entitlements.
func (r AccountRow) WithPaid(db *gorm.DB) (account.Account, error) {
	a := r.Account()
	paid, err := Paid(db, r.ID)
	a.Paid = paid[r.ID]
	return a, err
}

func fromAccount(a account.Account) *AccountRow {
	row := &AccountRow{
		ID: a.ID, Tier: string(a.Granted), SuspendedAt: Micros(a.SuspendedAt), SuspendReason: a.SuspendReason,
		CreatedAt: database.Micros(a.CreatedAt),
	}
	if a.MergedInto != "" {
		row.MergedInto = &a.MergedInto
	}
	return row
}

// CreateAccount creates an account with a granted tier.
func (tx *Tx) CreateAccount(granted api.Tier) (account.Account, error) {
	a := account.Account{Standing: account.Standing{Granted: granted}, ID: account.NewID(), CreatedAt: tx.Now}
	tx.Changed("accounts", "id", One(a.ID))
	return a, tx.Create(fromAccount(a)).Error
}

// SaveAccount stores the changed fields of an account, which must be locked.
func (tx *Tx) SaveAccount(a account.Account) error {
	tx.Changed("accounts", "id", One(a.ID))
	return tx.Save(fromAccount(a)).Error
}

// LockAccount reads an account and locks it until tx ends, so that no other transaction changes it or issues it a key. On
// SQLite the transaction itself is the lock. It returns an error for an account that was merged into another one or closed.
func (tx *Tx) LockAccount(id string) (account.Account, error) {
	row, err := tx.LockAccountRow(id)
	if err == nil && row.MergedInto != nil {
		err = account.Merged(*row.MergedInto)
	}
	if err != nil {
		return row.Account(), err
	}
	a, err := row.WithPaid(tx.DB)
	if err == nil {
		a.ClosedAt, err = tx.closedAt(id)
	}
	if a.ClosedAt != nil {
		err = account.Closed(*a.ClosedAt)
	}
	return a, err
}

// LockAccountRow locks an account in any state until tx ends.
func (tx *Tx) LockAccountRow(id string) (AccountRow, error) {
	var row AccountRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.NotFound()
	}
	return row, err
}

// closedAt returns when an account was closed, or nil.
func (tx *Tx) closedAt(id string) (*time.Time, error) {
	var closed []int64
	err := tx.Raw("SELECT closed_at FROM people WHERE account_id = ? AND closed_at IS NOT NULL", id).Scan(&closed).Error
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	return Instant(&closed[0]), nil
}

// MergeAccount gives the entitlements of one account to another, which also gets the granted tier. Both must be locked.
func (tx *Tx) MergeAccount(from, to string, granted api.Tier) error {
	tx.Changed("accounts", "id", []string{to, from})
	tx.Changed("entitlements", "holder_id", One(to), "holder_id")
	return errors.Join(
		tx.Model(&AccountRow{}).Where("id = ?", from).Update("merged_into", to).Error,
		tx.Model(&AccountRow{}).Where("id = ?", to).Update("tier", granted).Error,
		tx.Model(&EntitlementRow{}).Where("holder_id = ?", from).Update("holder_id", to).Error)
}

// NotifyTier posts a mail if the tier of an account differs from before.
func (tx *Tx) NotifyTier(before api.Tier, a account.Account) error {
	after := a.TierAt(tx.Now)
	if after == before {
		return nil
	}
	return tx.Notify(a.ID, "tier-changed", map[string]string{"from": string(before), "to": string(after)})
}
