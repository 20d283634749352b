package account

import (
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Row is an
type Row struct {
	ID            string `gorm:"primaryKey"`
	Tier          string
	SuspendedAt   *int64
	SuspendReason string
	MergedInto    *string
	CreatedAt     int64 `gorm:"autoCreateTime:false"`
}

// TableName implements gorm's Tabler.
func (Row) TableName() string { return "accounts" }

// Account returns the account without its entitlements and without the time at which it was closed.
func (r Row) Account() Account {
	a := Account{
		Standing: Standing{Granted: api.Tier(r.Tier)}, ID: r.ID, SuspendedAt: dbtx.Instant(r.SuspendedAt), SuspendReason: r.SuspendReason,
		CreatedAt: database.FromMicros(r.CreatedAt),
	}
	if r.MergedInto != nil {
		a.MergedInto = *r.MergedInto
	}
	return a
}

// WithPaid returns the account with its entitlements.
func (r Row) WithPaid(db *gorm.DB) (Account, error) {
	a := r.Account()
	paid, err := Paid(db, r.ID)
	a.Paid = paid[r.ID]
	return a, err
}

func fromAccount(a Account) *Row {
	row := &Row{
		ID: a.ID, Tier: string(a.Granted), SuspendedAt: dbtx.Micros(a.SuspendedAt), SuspendReason: a.SuspendReason,
		CreatedAt: database.Micros(a.CreatedAt),
	}
	if a.MergedInto != "" {
		row.MergedInto = &a.MergedInto
	}
	return row
}

// Create creates an account with a granted tier.
func Create(tx *dbtx.Tx, granted api.Tier) (Account, error) {
	a := Account{Standing: Standing{Granted: granted}, ID: NewID(), CreatedAt: tx.Now}
	tx.Changed("accounts", "id", dbtx.One(a.ID))
	return a, tx.Create(fromAccount(a)).Error
}

// Save stores the changed fields of an account, which must be locked.
func Save(tx *dbtx.Tx, a Account) error {
	tx.Changed("accounts", "id", dbtx.One(a.ID))
	return tx.Save(fromAccount(a)).Error
}

// Lock reads an account and locks it until tx ends, so that no other transaction changes it or issues it a key. On
// SQLite the transaction itself is the lock. It returns an error for an account that was merged into another one or closed.
func Lock(tx *dbtx.Tx, id string) (Account, error) {
	row, err := LockRow(tx, id)
	if err == nil && row.MergedInto != nil {
		err = Merged(*row.MergedInto)
	}
	if err != nil {
		return row.Account(), err
	}
	a, err := row.WithPaid(tx.DB)
	if err == nil {
		a.ClosedAt, err = closedAt(tx, id)
	}
	if a.ClosedAt != nil {
		err = Closed(*a.ClosedAt)
	}
	return a, err
}

// LockRow locks an account in any state until tx ends.
func LockRow(tx *dbtx.Tx, id string) (Row, error) {
	var row Row
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = NotFound()
	}
	return row, err
}

// closedAt returns when an account was closed, or nil.
func closedAt(tx *dbtx.Tx, id string) (*time.Time, error) {
	var closed []int64
	err := tx.Raw("SELECT closed_at FROM people WHERE account_id = ? AND closed_at IS NOT NULL", id).Scan(&closed).Error
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	return dbtx.Instant(&closed[0]), nil
}

// Merge gives the entitlements of one account to another, which also gets the granted tier. Both must be locked.
func Merge(tx *dbtx.Tx, from, to string, granted api.Tier) error {
	tx.Changed("accounts", "id", []string{to, from})
	tx.Changed("entitlements", "holder_id", dbtx.One(to), "holder_id")
	return errors.Join(
		tx.Model(&Row{}).Where("id = ?", from).Update("merged_into", to).Error,
		tx.Model(&Row{}).Where("id = ?", to).Update("tier", granted).Error,
		tx.Model(&EntitlementRow{}).Where("holder_id = ?", from).Update("holder_id", to).Error)
}

// NotifyTier posts a mail if the tier of an account differs from before.
func NotifyTier(tx *dbtx.Tx, before api.Tier, a Account) error {
	after := a.TierAt(tx.Now)
	if after == before {
		return nil
	}
	return tx.Notify(a.ID, "tier-changed", map[string]string{"from": string(before), "to": string(after)})
}
