// Package reconcile makes stored subscriptions equal to those at the payment processor: one on a
// webhook event or after an action of its account, or all, which corrects missed webhook events,
// renewals that were not charged, subscriptions that an operator created at the processor, and a
// database restored from a backup.
//
// An event only signals a change. Reconciler takes a ticket, an increasing number, then reads the
// whole state, and the store applies it only over a state with a smaller ticket. A state therefore
// includes every change made before its ticket was taken. Duplicate, late or reordered events and
// overlapping reads all end with the processor's latest state, and no clocks are compared.
//
// Pusher does the same for authquota, whose entitlements become those of the store.
//
// If the processor or the database fails, nothing is stored, and the processor sends the event
// again.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

// Reconciler reads subscriptions from the processor and applies them to the store.
type Reconciler struct {
	Store     *store.Store
	Processor subscription.Processor
	Now       func() time.Time
	Log       *slog.Logger
	OnChange  func() // called after a commit that may have changed an entitlement; may be nil
}

// Actor is the actor in the audit log when no operator started the reconciliation.
const Actor = "reconcile"

const pageSize = 200

// Run reconciles every customer, and then the accounts that only the processor knows as customers.
// If the processor fails for one of them, Run counts it in report.Failed and continues with the
// others. It returns an error only if the database is unavailable or ctx ends.
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

// others reconciles the subscriptions at the processor that were not compared yet, such as those of
// customers newer than a restored database.
func (r Reconciler) others(ctx context.Context, actor string, compared map[string]bool,
	report *api.BillingReport) error {
	ids, err := r.Processor.Subscriptions(ctx, "")
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
		if err := r.subscription(ctx, store.Cause{Actor: actor}, "", id, report); err != nil {
			return err
		}
	}
	return nil
}

// account reconciles one account: first its entitlement with its stored subscriptions, then those
// with the processor.
func (r Reconciler) account(ctx context.Context, actor string, a subscription.Account, compared map[string]bool,
	report *api.BillingReport) error {
	report.Customers++
	cause := store.Cause{Actor: actor}
	before, after, err := r.Store.UpdateEntitlement(ctx, a.ID, cause)
	if err != nil {
		return err
	}
	if d, different := subscription.EntitlementDifference(a.ID, before, after); different {
		report.Differences = append(report.Differences, d)
	}
	ids, err := r.Processor.Subscriptions(ctx, a.Customer)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// a deleted customer has no subscriptions beyond the stored ones
	if err != nil && !errors.Is(err, subscription.ErrNoCustomer) {
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

func (r Reconciler) subscription(ctx context.Context, cause store.Cause, account, id string,
	report *api.BillingReport) error {
	report.Subscriptions++
	change, err := r.Refresh(ctx, id, cause)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, subscription.ErrNotFound):
		report.Differences = append(report.Differences, api.BillingDifference{
			Account: account, Subscription: id, Field: "exists", Had: "true", Has: "false",
		})
	case err != nil:
		report.Failed++
		r.Log.WarnContext(ctx, "subscription not reconciled", "account_id", account, "subscription_id", id, "error",
			err.Error())
	default:
		report.Differences = append(report.Differences, corrected(change, id)...)
	}
	return nil
}

// finished reports whether a subscription can no longer affect its account: it never charges again
// and its paid period is over. A disputed payment does not count as over, because winning the
// dispute restores the rest of the period.
func (r Reconciler) finished(s subscription.State) bool {
	return s.Ended && (s.Paid == nil || s.Paid.Refunded || s.Paid.Until.Before(r.Now()))
}

func corrected(change store.Change, id string) []api.BillingDifference {
	if change.Stale || change.Account == "" { // already replaced by a later read, or not ours
		return nil
	}
	before := subscription.State{ID: id}
	if change.Before != nil {
		before = *change.Before
	}
	return subscription.Differences(before, *change.After)
}
