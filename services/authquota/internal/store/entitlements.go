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

type entitlementRow struct {
	AccountID string `gorm:"primaryKey"`
	HolderID  string
	Tier      string
	PaidUntil *int64
	Renews    bool
	Trouble   string
	Version   int64
	ToldOn    bool
}

func (entitlementRow) TableName() string { return "entitlements" }

func (r entitlementRow) toEntitlement() api.Entitlement {
	return api.Entitlement{
		Tier: api.Tier(r.Tier), PaidUntil: instant(r.PaidUntil), Renews: r.Renews, Trouble: api.Trouble(r.Trouble), Version: r.Version,
	}
}

// paidBy returns the entitlements that count for the given accounts, by account.
func paidBy(tx *gorm.DB, holders ...string) (map[string][]api.Entitlement, error) {
	var rows []entitlementRow
	err := tx.Order("account_id").Find(&rows, "holder_id IN ?", holders).Error
	paid := make(map[string][]api.Entitlement, len(rows))
	for _, r := range rows {
		paid[r.HolderID] = append(paid[r.HolderID], r.toEntitlement())
	}
	return paid, err
}

// billing is the actor of confirmed payments in the audit log.
const billing = "billing"

// Entitle stores the entitlement of an account, unless the stored version is the same or newer, and returns the account whose
// tier it counts for.
func (s *Store) Entitle(ctx context.Context, id string, e api.Entitlement) (holder string, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		before, err := lockEntitlement(tx, id)
		if err != nil {
			return err
		}
		holder = before.HolderID
		if e.Version <= before.Version {
			return nil
		}
		mail, on := account.News(before.ToldOn, before.toEntitlement(), e, now)
		row := entitlementRow{
			AccountID: id, HolderID: holder, Tier: string(e.Tier), PaidUntil: micros(e.PaidUntil), Renews: e.Renews, Trouble: string(e.Trouble),
			Version: e.Version, ToldOn: on,
		}
		if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
			return err
		}
		return errors.Join(
			record(tx, now, billing, "account.entitle", id, map[string]any{
				"tier": e.Tier, "paidUntil": e.PaidUntil, "renews": e.Renews, "trouble": e.Trouble, "version": e.Version,
			}),
			queueRaise(tx, holder),
			s.notifyPlan(tx, now, row, mail))
	})
	return holder, err
}

// lockEntitlement reads the entitlement of an account, with version 0 if there is none, and locks it until tx ends. It locks
// the account row, because the entitlement may not exist yet.
func lockEntitlement(tx *gorm.DB, id string) (entitlementRow, error) {
	var of accountRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&of, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.NotFound()
	}
	if err != nil {
		return entitlementRow{}, err
	}
	row := entitlementRow{AccountID: id, HolderID: id, Tier: string(api.BaseTier)}
	if of.MergedInto != nil {
		row.HolderID = *of.MergedInto
	}
	err = tx.Take(&row, "account_id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = nil
	}
	return row, err
}

// notifyPlan posts a mail about a plan, if any, with the current tier of its holder.
func (s *Store) notifyPlan(tx *gorm.DB, now time.Time, row entitlementRow, mail string) error {
	if mail == "" {
		return nil
	}
	a, err := readAccount(tx, row.HolderID)
	if err != nil {
		return err
	}
	e := row.toEntitlement()
	data := map[string]string{}
	switch mail {
	case "plan-started":
		then := "it ends then"
		if e.Renews {
			then = "it renews automatically until you cancel it"
		}
		data["tier"], data["until"], data["then"] = string(a.TierAt(now)), account.When(*e.PaidUntil), then
	case "plan-cancelled", "payment-failed":
		data["until"], data["tier"] = account.When(*e.PaidUntil), string(a.TierAt(*e.PaidUntil))
	case "plan-resumed":
		data["until"] = account.When(*e.PaidUntil)
	default: // it has ended
		data["tier"] = string(a.TierAt(now))
	}
	return s.notify(tx, now, row.HolderID, mail, data)
}

func readAccount(tx *gorm.DB, id string) (account.Account, error) {
	var row accountRow
	if err := tx.Take(&row, "id = ?", id).Error; err != nil {
		return account.Account{}, err
	}
	return row.withPaid(tx)
}

// EndPlans posts one mail for each paid period that has ended. Several processes may call it concurrently.
func (s *Store) EndPlans(ctx context.Context) error {
	var ids []string
	err := s.db.WithContext(ctx).Model(&entitlementRow{}).Where("told_on AND (paid_until IS NULL OR paid_until <= ?)", database.Micros(s.now())).
		Order("account_id").Pluck("account_id", &ids).Error
	failures := []error{database.Outage(err)}
	for _, id := range ids { // an error of one account does not block the others
		failures = append(failures, s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
			row, err := lockEntitlement(tx, id)
			if err != nil {
				return err
			}
			mail, on := account.EndNews(row.ToldOn, row.toEntitlement(), now)
			if on == row.ToldOn { // renewed, about to be renewed, or handled by another process
				return nil
			}
			return errors.Join(
				tx.Model(&entitlementRow{}).Where("account_id = ?", id).Update("told_on", on).Error,
				s.notifyPlan(tx, now, row, mail))
		}))
	}
	return errors.Join(failures...)
}
