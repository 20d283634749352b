// Package plan stores what accounts have paid for and describes the plans that they can have.
//
// Billing reports an entitlement in versions, and the newest counts (Store.Entitle). News and
// EndNews decide which mail a person gets about it. CancelClosed cancels the plans of closed
// accounts at billing. An Offer is a tier on a page.
package plan

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/notices"
)

// Store stores entitlements.
type Store struct{ db *accountdb.DB }

// NewStore returns a Store.
func NewStore(db *accountdb.DB) *Store { return &Store{db} }

// lastInstant is the latest valid end of an entitlement. JSON can represent it in every time zone.
var lastInstant = time.Date(9998, 1, 1, 0, 0, 0, 0, time.UTC)

// Entitled returns an entitlement in its canonical form, or an error for the first invalid field.
func Entitled(e api.Entitlement) (api.Entitlement, error) {
	if _, sold := api.PlanOf(e.Tier); !sold {
		names := make([]string, len(api.Plans))
		for i, p := range api.Plans {
			names[i] = string(p.Tier)
		}
		return e, problem.Invalid("tier", "must be that of a plan: "+strings.Join(names, ", "))
	}
	switch {
	case e.Tier == api.BaseTier && e.PaidUntil != nil:
		return e, problem.Invalid("paidUntil", "must be null where tier is "+string(api.BaseTier)+": nothing is paid for")
	case e.Tier != api.BaseTier && e.PaidUntil == nil:
		return e, problem.Invalid("paidUntil", "must be an instant where tier is not "+string(api.BaseTier))
	case e.PaidUntil != nil && (e.PaidUntil.Unix() <= 0 || e.PaidUntil.After(lastInstant)):
		return e, problem.Invalid("paidUntil", "must be after 1970 and before 9998")
	case e.Version < 1:
		return e, problem.Invalid("version", "must be at least 1")
	}
	switch e.Trouble {
	case api.NoTrouble, api.PaymentFailed, api.Refunded, api.Disputed:
	default:
		return e, problem.Invalid("trouble", "must be empty, payment-failed, refunded or disputed")
	}
	if e.PaidUntil != nil {
		until := e.PaidUntil.UTC().Truncate(time.Microsecond) // the precision of the database
		e.PaidUntil = &until
	}
	return e, nil
}

// settling is the time in which a renewal may arrive after the paid period has ended: billing
// charges within seconds and, after a failure, the processor retries about an hour later. The tier
// ends on time; only the mail about it waits.
const settling = 3 * time.Hour

// News returns which mail to send when after replaces before, if any, and whether the person
// considers the plan active from then on. on is the previous value. It compares states rather than
// events, because events may arrive late, twice or not at all.
func News(on bool, before, after api.Entitlement, now time.Time) (mail string, nowOn bool) {
	switch {
	case !after.Live(now):
		return EndNews(on, after, now)
	case !on:
		return "plan-started", true
	case after.Trouble == api.PaymentFailed && before.Trouble != api.PaymentFailed:
		return "payment-failed", true
	case before.Renews && !after.Renews:
		return "plan-cancelled", true
	case !before.Renews && after.Renews:
		return "plan-resumed", true
	}
	return "", true
}

// Renewed reports whether after extends the paid period of a plan that the person considers active.
func Renewed(on bool, before, after api.Entitlement, now time.Time) bool {
	return on && after.Live(now) && before.Tier == after.Tier && after.PaidUntil.After(*before.PaidUntil)
}

// EndNews is News for the passage of time without a change.
func EndNews(on bool, e api.Entitlement, now time.Time) (mail string, nowOn bool) {
	switch {
	case !on || e.Live(now):
		return "", on
	case e.Trouble == api.Refunded:
		return "plan-refunded", false
	case e.Trouble == api.Disputed:
		return "plan-disputed", false
	case e.Trouble == api.PaymentFailed:
		return "plan-unpaid", false
	case e.Renews && e.PaidUntil != nil && now.Before(e.PaidUntil.Add(settling)):
		return "", true
	}
	return "plan-ended", false
}

const billingActor = "billing"

// Entitle stores the entitlement of an account, unless the stored version is the same or newer. The
// database rejects values that billing never reports.
func (s *Store) Entitle(ctx context.Context, id string, e api.Entitlement) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		before, err := lockEntitlement(tx, id)
		if err != nil {
			return err
		}
		holder := before.HolderID
		if e.Version <= before.Version {
			return tx.Touch(holder) // the change before may not be in effect yet
		}
		mail, on := News(before.SaidActive, api.Entitlement(before.Entitlement), e, tx.Now)
		if mail == "" && Renewed(before.SaidActive, api.Entitlement(before.Entitlement), e, tx.Now) {
			mail = "plan-renewed"
		}
		row := account.EntitlementRow{
			AccountID: id, HolderID: holder, Entitlement: account.Entitlement(e), SaidActive: on,
		}
		if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
			return err
		}
		return errors.Join(
			tx.Record(billingActor, "account.entitle", id, map[string]any{
				"tier": e.Tier, "paidUntil": e.PaidUntil, "renews": e.Renews, "trouble": e.Trouble, "version": e.Version,
			}),
			tx.Touch(holder),
			notifyPlan(tx, row, mail))
	})
}

// lockEntitlement reads the entitlement of an account, with version 0 if there is none, and locks
// it until tx ends. It locks the account row, because the entitlement may not exist yet.
func lockEntitlement(tx *accountdb.Tx, id string) (account.EntitlementRow, error) {
	of, err := account.LockAny(tx, id)
	if err != nil {
		return account.EntitlementRow{}, err
	}
	row := account.EntitlementRow{AccountID: id, HolderID: cmp.Or(of.MergedInto, id)}
	row.Tier = api.BaseTier
	err = tx.Take(&row, "account_id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = nil
	}
	return row, err
}

func notifyPlan(tx *accountdb.Tx, row account.EntitlementRow, mail string) error {
	if mail == "" {
		return nil
	}
	a, err := account.Read(tx.DB, row.HolderID)
	if err != nil {
		return err
	}
	e := api.Entitlement(row.Entitlement)
	data := map[string]string{}
	switch mail {
	case "plan-started":
		then := "it ends then"
		if e.Renews {
			then = "it renews automatically until you cancel it"
		}
		data["tier"], data["until"], data["then"] = string(a.TierAt(tx.Now)), account.FormatTime(*e.PaidUntil), then
	case "payment-failed":
		data["until"], data["tier"] = account.FormatTime(*e.PaidUntil), string(a.TierAt(*e.PaidUntil))
		return notices.Notify(tx, notices.PaymentFailed, row.HolderID, mail, data)
	case "plan-cancelled":
		data["until"], data["tier"] = account.FormatTime(*e.PaidUntil), string(a.TierAt(*e.PaidUntil))
	case "plan-renewed":
		data["until"] = account.FormatTime(*e.PaidUntil)
		return notices.Notify(tx, notices.PlanRenewal, row.HolderID, mail, data)
	case "plan-resumed":
		data["until"] = account.FormatTime(*e.PaidUntil)
	default: // it has ended
		data["tier"] = string(a.TierAt(tx.Now))
	}
	return tx.Notify(row.HolderID, mail, data)
}

// EndPlans posts one mail for each paid period that has ended. Several processes may call it
// concurrently.
func (s *Store) EndPlans(ctx context.Context) error {
	var ids []string
	err := s.db.WithContext(ctx).Model(&account.EntitlementRow{}).
		Where("told_on AND (paid_until IS NULL OR paid_until <= ?)", database.Micros(s.db.Now())).
		Order("account_id").Pluck("account_id", &ids).Error
	failures := []error{database.Outage(err)}
	for _, id := range ids { // an error of one account does not block the others
		failures = append(failures, s.db.Change(ctx, func(tx *accountdb.Tx) error {
			row, err := lockEntitlement(tx, id)
			if err != nil {
				return err
			}
			mail, on := EndNews(row.SaidActive, api.Entitlement(row.Entitlement), tx.Now)
			if on == row.SaidActive { // renewed, about to be renewed, or handled by another process
				return nil
			}
			return errors.Join(
				tx.Model(&account.EntitlementRow{}).Where("account_id = ?", id).Update("told_on", on).Error,
				notifyPlan(tx, row, mail))
		}))
	}
	return errors.Join(failures...)
}

// CancelInterval is the time between calls of CancelClosed.
const CancelInterval = 10 * time.Second

const cancelBatch = 100

// PendingCancels returns up to limit entitlements of closed accounts that billing has not cancelled
// in their latest version.
func (s *Store) PendingCancels(ctx context.Context, limit int) (pending []account.EntitlementRow, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT e.* FROM entitlements e JOIN people p ON p.account_id = e.holder_id
		WHERE p.closed_at IS NOT NULL AND e.cancel_told < e.version ORDER BY e.account_id LIMIT ?`,
		limit).Scan(&pending).Error
	return pending, database.Outage(err)
}

// CancelClosed cancels the subscriptions of closed accounts and returns the number of accounts that
// remain. They stay pending if seller is unavailable or nil.
//
// A cancellation is pending for every entitlement version that billing reports for a closed
// account: a later version may be a payment on a checkout session that was still open. Cancelling a
// subscription that does not renew has no effect. The pending state is derived from the account and
// its entitlement, so it cannot be lost.
func (s *Store) CancelClosed(ctx context.Context, seller *peer.Client) (left int, err error) {
	pending, err := s.PendingCancels(ctx, cancelBatch)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	if seller == nil {
		return len(pending), errors.New("closed accounts may still be charged: OPPORTUNITY_BILLING_URL is not set")
	}
	left = len(pending)
	var failures []error
	for _, p := range pending {
		err := seller.Post(ctx, SubscriptionPath(p.AccountID)+"/cancel", struct{}{}, new(api.Subscription))
		if err == nil {
			err = database.Outage(s.db.WithContext(ctx).Model(&account.EntitlementRow{}).
				Where("account_id = ? AND cancel_told < ?", p.AccountID, p.Version).Update("cancel_told", p.Version).Error)
		}
		if err == nil {
			left--
			continue
		}
		failures = append(failures, err)
		if problem.Of(err).Code == problem.ServiceUnavailable { // unavailable for all accounts
			break
		}
	}
	return left, errors.Join(failures...)
}
