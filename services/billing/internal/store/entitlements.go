package store

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/subscription"
)

type entitlementRow struct {
	Account   string `gorm:"primaryKey"`
	Tier      string
	PaidUntil *int64
	Renews    bool
	Trouble   string
	Version   int64
}

func (entitlementRow) TableName() string { return "entitlements" }

func (r entitlementRow) entitlement() api.Entitlement {
	return api.Entitlement{
		Tier: api.Tier(r.Tier), PaidUntil: timeOrNil(r.PaidUntil), Renews: r.Renews, Trouble: api.Trouble(r.Trouble),
		Version: r.Version,
	}
}

// lockAccount creates the account's row if there is none and locks it until tx ends. On SQLite the
// transaction locks the whole database.
func lockAccount(tx *gorm.DB, account string, now time.Time) error {
	err := tx.Exec(`INSERT INTO entitlements
			(account, tier, paid_until, renews, trouble, version, push_at, changed_at)
		VALUES (?, ?, NULL, ?, '', 0, NULL, ?) ON CONFLICT (account) DO NOTHING`,
		account, api.BaseTier, false, database.Micros(now)).Error
	if err != nil {
		return err
	}
	return tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
		Take(&entitlementRow{}, "account = ?", account).Error
}

// UpdateEntitlement derives an account's entitlement again from its stored subscriptions and
// returns the old and the new one. They differ if the database was edited by hand.
func (s *Store) UpdateEntitlement(ctx context.Context, account string, cause Cause) (before, after api.Entitlement,
	err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err = lockAccount(tx, account, now); err == nil {
			before, after, err = updateEntitlement(tx, now, cause, account)
		}
		return err
	})
	return before, after, err
}

// updateEntitlement derives an account's entitlement again and, if it has changed, stores it as a
// pending push. The caller holds the account's lock.
func updateEntitlement(tx *gorm.DB, now time.Time, cause Cause, account string) (before, after api.Entitlement,
	err error) {
	states, err := loadStates(tx, account)
	if err != nil {
		return before, after, err
	}
	var row entitlementRow
	if err := tx.Where("account = ?", account).Take(&row).Error; err != nil {
		return before, after, err
	}
	before, after = row.entitlement(), subscription.DeriveEntitlement(states)
	if _, different := subscription.EntitlementDifference(account, before, after); !different {
		return before, before, nil
	}
	if after.Version, err = addChange(tx, now, before.Version); err != nil {
		return before, after, err
	}
	err = tx.Exec(`UPDATE entitlements SET tier = ?, paid_until = ?, renews = ?, trouble = ?, version = ?,
			push_at = ?, changed_at = ? WHERE account = ?`,
		after.Tier, microsOrNil(after.PaidUntil), after.Renews, after.Trouble, after.Version, dueNow,
		database.Micros(now), account).Error
	if err != nil {
		return before, after, err
	}
	return before, after, audit(tx, now, cause.Actor, "entitlement.change", account,
		withEvent(cause, map[string]any{"had": before, "has": after}))
}

// dueNow is the push time of a new entitlement. It lies in the past on the clock of every replica.
const dueNow = 0

func loadStates(tx *gorm.DB, account string) ([]subscription.State, error) {
	var rows []subscriptionRow
	if err := tx.Where("account = ?", account).Order("id").Find(&rows).Error; err != nil {
		return nil, err
	}
	states := make([]subscription.State, len(rows))
	for i, r := range rows {
		var err error
		if states[i], err = r.state(); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// Due returns at most limit pushes that are due. Those that were never postponed come first, and of
// these the newest changes, so that a purchase does not wait for a push of all entitlements.
func (s *Store) Due(ctx context.Context, limit int) ([]Push, error) {
	var rows []entitlementRow
	err := s.db.WithContext(ctx).Where("push_at <= ?", database.Micros(s.now())).
		Order("push_at, changed_at DESC, account").Limit(limit).Find(&rows).Error
	due := make([]Push, len(rows))
	for i, r := range rows {
		due[i] = Push{Account: r.Account, Entitlement: r.entitlement()}
	}
	return due, database.Outage(err)
}

// MarkPushed records that authquota has acknowledged a version. A later version stays pending.
func (s *Store) MarkPushed(ctx context.Context, account string, version int64) error {
	return s.setPushAt(ctx, account, version, nil)
}

// Postpone sets the time of the next push of a version. It does nothing if there is a later
// version.
func (s *Store) Postpone(ctx context.Context, account string, version int64, at time.Time) error {
	return s.setPushAt(ctx, account, version, database.Micros(at))
}

func (s *Store) setPushAt(ctx context.Context, account string, version int64, at any) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE entitlements SET push_at = ? WHERE account = ? AND version = ?", at, account, version).Error)
}

// CountPending returns the number of pending pushes, due or not.
func (s *Store) CountPending(ctx context.Context) (int, error) {
	var n int64
	err := s.db.WithContext(ctx).Raw("SELECT count(*) FROM entitlements WHERE push_at IS NOT NULL").Scan(&n).Error
	return int(n), database.Outage(err)
}

// RequeueAll marks every entitlement as pending, in case authquota has lost some.
func (s *Store) RequeueAll(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE entitlements SET push_at = ? WHERE version > 0 AND push_at IS NULL", dueNow).Error)
}
