package store

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/entitle"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/subscription"
)

type entitlementRow struct {
	Account       string `gorm:"primaryKey"`
	Tier          string
	PaidUntil     *int64
	Renews        bool
	Trouble       string
	Version       int64
	PushedVersion int64
	PushAt        *int64
	PushFailures  int
	ChangedAt     int64
}

func (entitlementRow) TableName() string { return "entitlements" }

func (r entitlementRow) entitlement() api.Entitlement {
	return api.Entitlement{
		Tier: api.Tier(r.Tier), PaidUntil: instant(r.PaidUntil), Renews: r.Renews, Trouble: api.Trouble(r.Trouble), Version: r.Version,
	}
}

// lock makes the account's row where there is none, and holds it until tx ends. On SQLite the transaction itself does so.
func lock(tx *gorm.DB, account string, now time.Time) error {
	err := tx.Exec(`INSERT INTO entitlements
			(account, tier, paid_until, renews, trouble, version, pushed_version, push_at, push_failures, changed_at)
		VALUES (?, ?, NULL, ?, '', 0, 0, NULL, 0, ?) ON CONFLICT (account) DO NOTHING`,
		account, api.Free, false, database.Micros(now)).Error
	if err != nil {
		return err
	}
	return tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&entitlementRow{}, "account = ?", account).Error
}

// Reckon works out anew what an account has paid for, from what is kept of its subscriptions, and returns what was kept before and what is
// kept now. They differ where somebody has changed the database by hand, or an older version of the service reckoned otherwise.
func (s *Store) Reckon(ctx context.Context, account string, why intake.Cause) (had, has api.Entitlement, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := lock(tx, account, now); err != nil {
			return err
		}
		var row entitlementRow
		if err := tx.Where("account = ?", account).Take(&row).Error; err != nil {
			return err
		}
		had = row.entitlement()
		if err := reckon(tx, now, why, account); err != nil {
			return err
		}
		row = entitlementRow{}
		err := tx.Where("account = ?", account).Take(&row).Error
		has = row.entitlement()
		return err
	})
	return had, has, err
}

// reckon works out anew what an account has paid for and, where that changes, owes it to authquota. The account is locked.
func reckon(tx *gorm.DB, now time.Time, why intake.Cause, account string) error {
	states, err := statesOf(tx, account)
	if err != nil {
		return err
	}
	var row entitlementRow
	if err := tx.Where("account = ?", account).Take(&row).Error; err != nil {
		return err
	}
	had, has := row.entitlement(), subscription.Entitle(states)
	// Above all that was ever given, also by a database that has since been set back to a backup: authquota ignores what is not greater.
	has.Version = max(had.Version+1, database.Micros(now))
	if same(had, has) {
		return nil
	}
	err = tx.Exec(`UPDATE entitlements SET tier = ?, paid_until = ?, renews = ?, trouble = ?, version = ?, push_at = ?, push_failures = 0,
			changed_at = ? WHERE account = ?`,
		has.Tier, micros(has.PaidUntil), has.Renews, has.Trouble, has.Version, atOnce, database.Micros(now), account).Error
	if err != nil {
		return err
	}
	return record(tx, now, why.Actor, "entitlement.change", account, detail(why, map[string]any{"had": had, "has": has}))
}

// atOnce is the instant at which what has never been tried is due: by the clock of every replica.
const atOnce = 0

// same compares all but the version.
func same(a, b api.Entitlement) bool {
	return a.Tier == b.Tier && a.Renews == b.Renews && a.Trouble == b.Trouble && (a.PaidUntil == nil) == (b.PaidUntil == nil) &&
		(a.PaidUntil == nil || a.PaidUntil.Equal(*b.PaidUntil))
}

func statesOf(tx *gorm.DB, account string) ([]subscription.State, error) {
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

// Owed are entitlements that authquota must be told now, those that wait for longest first: that of one account or, where it is empty,
// of at most limit.
func (s *Store) Owed(ctx context.Context, account string, limit int) ([]entitle.Owed, error) {
	q := s.db.WithContext(ctx).Where("push_at <= ?", database.Micros(s.now())).Order("push_at, account").Limit(limit)
	if account != "" {
		q = q.Where("account = ?", account)
	}
	var rows []entitlementRow
	err := q.Find(&rows).Error
	owed := make([]entitle.Owed, len(rows))
	for i, r := range rows {
		owed[i] = entitle.Owed{Account: r.Account, Entitlement: r.entitlement(), Failures: r.PushFailures}
	}
	return owed, database.Outage(err)
}

// Pushed keeps that authquota has accepted a version. What has changed since stays owed.
func (s *Store) Pushed(ctx context.Context, account string, version int64) error {
	return database.Outage(s.db.WithContext(ctx).Exec(`UPDATE entitlements SET
			pushed_version = CASE WHEN pushed_version < ? THEN ? ELSE pushed_version END,
			push_at = CASE WHEN version = ? THEN NULL ELSE push_at END, push_failures = 0
		WHERE account = ? AND version >= ?`, version, version, version, account, version).Error)
}

// Defer tells authquota of a version later, unless there is another one meanwhile.
func (s *Store) Defer(ctx context.Context, account string, version int64, at time.Time) error {
	return database.Outage(s.db.WithContext(ctx).Exec(`UPDATE entitlements SET push_at = ?, push_failures = push_failures + 1
		WHERE account = ? AND version = ? AND push_at IS NOT NULL`, database.Micros(at), account, version).Error)
}

// Pending is how many entitlements authquota has yet to be told.
func (s *Store) Pending(ctx context.Context) (int, error) {
	var n int64
	err := s.db.WithContext(ctx).Raw("SELECT count(*) FROM entitlements WHERE push_at IS NOT NULL").Scan(&n).Error
	return int(n), database.Outage(err)
}

// OweAll has authquota told of every entitlement once more, in case it has lost some.
func (s *Store) OweAll(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).
		Exec("UPDATE entitlements SET push_at = ? WHERE version > 0 AND push_at IS NULL", atOnce).Error)
}
