package plan

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/notices"
)

// billingActor is the actor of confirmed payments in the audit log.
const billingActor = "billing"

// Entitle stores the entitlement of an account, unless the stored version is the same or newer, and returns the account whose
// tier it counts for.
func (s *Store) Entitle(ctx context.Context, id string, e api.Entitlement) (holder string, err error) {
	err = s.db.Change(ctx, func(tx *dbtx.Tx) error {
		before, err := lockEntitlement(tx, id)
		if err != nil {
			return err
		}
		holder = before.HolderID
		if e.Version <= before.Version {
			return nil
		}
		mail, on := News(before.SaidActive, before.Entitlement(), e, tx.Now)
		if mail == "" && Renewed(before.SaidActive, before.Entitlement(), e, tx.Now) {
			mail = "plan-renewed"
		}
		row := account.EntitlementRow{
			AccountID: id, HolderID: holder, Tier: string(e.Tier), PaidUntil: dbtx.Micros(e.PaidUntil), Renews: e.Renews, Trouble: string(e.Trouble),
			Version: e.Version, SaidActive: on,
		}
		if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
			return err
		}
		tx.Changed("entitlements", "account_id", dbtx.One(id))
		tx.Changed("feed_copies", "feed", dbtx.One(highwater.RowOf(billingActor))) // billing reported its mark before the entitlement
		return errors.Join(
			tx.Record(billingActor, "account.entitle", id, map[string]any{
				"tier": e.Tier, "paidUntil": e.PaidUntil, "renews": e.Renews, "trouble": e.Trouble, "version": e.Version,
			}),
			tx.QueueRaise(holder),
			notifyPlan(tx, row, mail))
	})
	return holder, err
}

// lockEntitlement reads the entitlement of an account, with version 0 if there is none, and locks it until tx ends. It locks
// the account row, because the entitlement may not exist yet.
func lockEntitlement(tx *dbtx.Tx, id string) (account.EntitlementRow, error) {
	of, err := account.LockRow(tx, id)
	if err != nil {
		return account.EntitlementRow{}, err
	}
	row := account.EntitlementRow{AccountID: id, HolderID: id, Tier: string(api.BaseTier)}
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
func notifyPlan(tx *dbtx.Tx, row account.EntitlementRow, mail string) error {
	if mail == "" {
		return nil
	}
	var holder account.Row
	if err := tx.Take(&holder, "id = ?", row.HolderID).Error; err != nil {
		return err
	}
	a, err := holder.WithPaid(tx.DB)
	if err != nil {
		return err
	}
	e := row.Entitlement()
	data := map[string]string{}
	switch mail {
	case "plan-started":
		then := "it ends then"
		if e.Renews {
			then = "it renews automatically until you cancel it"
		}
		data["tier"], data["until"], data["then"] = string(a.TierAt(tx.Now)), account.When(*e.PaidUntil), then
	case "payment-failed":
		data["until"], data["tier"] = account.When(*e.PaidUntil), string(a.TierAt(*e.PaidUntil))
		return notices.Notify(tx, notices.PaymentFailed, row.HolderID, mail, data)
	case "plan-cancelled":
		data["until"], data["tier"] = account.When(*e.PaidUntil), string(a.TierAt(*e.PaidUntil))
	case "plan-renewed":
		data["until"] = account.When(*e.PaidUntil)
		return notices.Notify(tx, notices.PlanRenewal, row.HolderID, mail, data)
	case "plan-resumed":
		data["until"] = account.When(*e.PaidUntil)
	default: // it has ended
		data["tier"] = string(a.TierAt(tx.Now))
	}
	return tx.Notify(row.HolderID, mail, data)
}

// EndPlans posts one mail for each paid period that has ended. Several processes may call it concurrently.
func (s *Store) EndPlans(ctx context.Context) error {
	var ids []string
	err := s.db.WithContext(ctx).Model(&account.EntitlementRow{}).Where("told_on AND (paid_until IS NULL OR paid_until <= ?)", database.Micros(s.db.Now())).
		Order("account_id").Pluck("account_id", &ids).Error
	failures := []error{database.Outage(err)}
	for _, id := range ids { // an error of one account does not block the others
		failures = append(failures, s.db.Change(ctx, func(tx *dbtx.Tx) error {
			row, err := lockEntitlement(tx, id)
			if err != nil {
				return err
			}
			mail, on := EndNews(row.SaidActive, row.Entitlement(), tx.Now)
			if on == row.SaidActive { // renewed, about to be renewed, or handled by another process
				return nil
			}
			tx.Changed("entitlements", "account_id", dbtx.One(id), "told_on")
			return errors.Join(
				tx.Model(&account.EntitlementRow{}).Where("account_id = ?", id).Update("told_on", on).Error,
				notifyPlan(tx, row, mail))
		}))
	}
	return errors.Join(failures...)
}
