// Package reconcile compares stored subscriptions with the payment processor and corrects what differs: missed webhook events, renewals that
// were not charged, subscriptions that an operator created at the processor, a database restored from a backup.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/subscription"
)

// Store holds accounts and their entitlements.
type Store interface {
	// Customers returns at most limit accounts with a customer at the processor, ordered by id, starting after the given id.
	Customers(ctx context.Context, after string, limit int) ([]subscription.Account, error)
	// UpdateEntitlement derives an account's entitlement again from its stored subscriptions and returns the old and the new one.
	UpdateEntitlement(ctx context.Context, account string, cause intake.Cause) (before, after api.Entitlement, err error)
	// RequeueAll marks every entitlement as pending, in case authquota has lost some.
	RequeueAll(ctx context.Context) error
}

// Source lists subscriptions at the processor.
type Source interface {
	Subscriptions(ctx context.Context, customer string) ([]string, error)
	// AccountSubscriptions lists all subscriptions that name an account, those of unknown customers included.
	AccountSubscriptions(ctx context.Context) ([]string, error)
}

// Reconciler compares the store with the processor.
type Reconciler struct {
	Store  Store
	Source Source
	Intake intake.Intake
	Now    func() time.Time
	Log    *slog.Logger
}

// Actor is the actor in the audit log when no operator started the reconciliation.
const Actor = "reconcile"

const pageSize = 200

// Run reconciles every customer, and then the accounts that only the processor knows as customers. If the processor fails for one of them,
// Run counts it in report.Failed and continues with the others. It returns an error only if the database is unavailable or ctx ends.
func (r Reconciler) Run(ctx context.Context, actor string) (report api.BillingReport, err error) {
	report.Differences = []api.BillingDifference{}
	compared := map[string]bool{} // subscriptions
	for after := ""; ; {
		accounts, err := r.Store.Customers(ctx, after, pageSize)
		if err != nil {
			return report, err
		}
		for _, a := range accounts {
			if err := r.account(ctx, actor, a, compared, &report); err != nil {
				return report, err
			}
			after = a.ID
		}
		if len(accounts) < pageSize {
			break
		}
	}
	if err := r.others(ctx, actor, compared, &report); err != nil {
		return report, err
	}
	return report, r.Store.RequeueAll(ctx)
}

// others reconciles the subscriptions at the processor that were not compared yet, such as those of customers newer than a restored database.
func (r Reconciler) others(ctx context.Context, actor string, compared map[string]bool, report *api.BillingReport) error {
	ids, err := r.Source.AccountSubscriptions(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		report.Failed++
		r.Log.WarnContext(ctx, "subscriptions of unknown customers not reconciled", "error", err.Error())
	}
	for _, id := range ids {
		if compared[id] {
			continue
		}
		if err := r.subscription(ctx, intake.Cause{Actor: actor}, "", id, report); err != nil {
			return err
		}
	}
	return nil
}

// account reconciles one account: first its entitlement with its stored subscriptions, then those with the processor.
func (r Reconciler) account(ctx context.Context, actor string, a subscription.Account, compared map[string]bool, report *api.BillingReport) error {
	report.Customers++
	cause := intake.Cause{Actor: actor}
	before, after, err := r.Store.UpdateEntitlement(ctx, a.ID, cause)
	if err != nil {
		return err
	}
	if d, different := subscription.EntitlementDifference(a.ID, before, after); different {
		d.Healed = true
		report.Differences = append(report.Differences, d)
	}
	ids, err := r.Source.Subscriptions(ctx, a.Customer)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, processor.ErrNoCustomer) { // a deleted customer has no subscriptions beyond the stored ones
		report.Failed++
		r.Log.WarnContext(ctx, "customer not reconciled", "account_id", a.ID, "error", err.Error())
	}
	stored := map[string]subscription.State{}
	for _, state := range a.States {
		stored[state.ID] = state
		if !slices.Contains(ids, state.ID) {
			ids = append(ids, state.ID)
		}
	}
	for _, id := range ids {
		compared[id] = true
		if state, known := stored[id]; known && r.finished(state) {
			continue
		}
		if err := r.subscription(ctx, cause, a.ID, id, report); err != nil {
			return err
		}
	}
	return nil
}

func (r Reconciler) subscription(ctx context.Context, cause intake.Cause, account, id string, report *api.BillingReport) error {
	report.Subscriptions++
	change, err := r.Intake.Refresh(ctx, id, cause)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, processor.ErrNotFound):
		report.Differences = append(report.Differences, api.BillingDifference{
			Account: account, Subscription: id, Field: "exists", Had: "true", Has: "false",
		})
	case err != nil:
		report.Failed++
		r.Log.WarnContext(ctx, "subscription not reconciled", "account_id", account, "subscription_id", id, "error", err.Error())
	default:
		report.Differences = append(report.Differences, corrected(change, id)...)
	}
	return nil
}

// finished reports whether a subscription can no longer affect its account: it never charges again and its paid period is over. A
// disputed payment does not count as over, because winning the dispute restores the rest of the period.
func (r Reconciler) finished(s subscription.State) bool {
	return s.Ended && (s.Paid == nil || s.Paid.Refunded || s.Paid.Until.Before(r.Now()))
}

// corrected returns the differences that applying a change has corrected.
func corrected(change intake.Change, id string) []api.BillingDifference {
	if change.Stale || change.Account == "" { // already replaced by a later read, or not ours
		return nil
	}
	before := subscription.State{ID: id}
	if change.Before != nil {
		before = *change.Before
	}
	found := subscription.Differences(before, *change.After)
	for i := range found {
		found[i].Healed = true
	}
	return found
}
