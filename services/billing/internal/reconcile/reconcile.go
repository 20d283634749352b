// Package reconcile compares all that is kept of subscriptions with the payment processor, and heals what differs: an announcement that
// never came, a renewal that waits to be charged, a subscription that an operator made at the processor, a database that was set back to a
// backup.
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

// Store is what is kept.
type Store interface {
	// Customers are at most limit accounts that the processor knows, in their order, after one of them.
	Customers(ctx context.Context, after string, limit int) ([]subscription.Standing, error)
	// Reckon works out anew what an account has paid for, from what is kept of its subscriptions.
	Reckon(ctx context.Context, account string, why intake.Cause) (had, has api.Entitlement, err error)
	// OweAll has authquota told of every entitlement once more: it may have lost some.
	OweAll(ctx context.Context) error
}

// Source lists subscriptions.
type Source interface {
	Subscriptions(ctx context.Context, customer string) ([]string, error)
}

// Reconciler compares.
type Reconciler struct {
	Store  Store
	Source Source
	Intake intake.Intake
	Now    func() time.Time
	Log    *slog.Logger
}

// Actor is who heals, in the audit log, where no operator asked for it.
const Actor = "reconcile"

const page = 200

// Run compares every customer. What the processor does not tell of one is counted as failed and keeps nobody else from being compared;
// its error says that the database is away, or that the time is over.
func (r Reconciler) Run(ctx context.Context, actor string) (report api.BillingReport, err error) {
	report.Differences = []api.BillingDifference{}
	for after := ""; ; {
		customers, err := r.Store.Customers(ctx, after, page)
		if err != nil {
			return report, err
		}
		for _, c := range customers {
			if err := r.customer(ctx, actor, c, &report); err != nil {
				return report, err
			}
			after = c.Account
		}
		if len(customers) < page {
			break
		}
	}
	return report, r.Store.OweAll(ctx)
}

// customer fails only where going on is of no use.
func (r Reconciler) customer(ctx context.Context, actor string, c subscription.Standing, report *api.BillingReport) error {
	report.Customers++
	had, has, err := r.Store.Reckon(ctx, c.Account, intake.Cause{Actor: actor})
	if err != nil {
		return err
	}
	if d, different := subscription.EntitlementDifference(c.Account, had, has); different {
		d.Healed = true
		report.Differences = append(report.Differences, d)
	}
	ids, err := r.Source.Subscriptions(ctx, c.Customer)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, processor.ErrNoCustomer) { // who was deleted there has no more than what is kept here
		report.Failed++
		r.Log.WarnContext(ctx, "customer not compared", "account", c.Account, "error", err.Error())
	}
	kept := map[string]subscription.State{}
	for _, state := range c.States {
		kept[state.ID] = state
		if !slices.Contains(ids, state.ID) {
			ids = append(ids, state.ID)
		}
	}
	for _, id := range ids {
		state, known := kept[id]
		if known && r.over(state) {
			continue
		}
		report.Subscriptions++
		change, err := r.Intake.Refresh(ctx, id, intake.Cause{Actor: actor})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, processor.ErrUnknown):
			report.Differences = append(report.Differences, api.BillingDifference{
				Account: c.Account, Subscription: id, Field: "exists", Had: "true", Has: "false",
			})
		case err != nil:
			report.Failed++
			r.Log.WarnContext(ctx, "subscription not compared", "account", c.Account, "subscription", id, "error", err.Error())
		default:
			report.Differences = append(report.Differences, differences(change, c.Account, id)...)
		}
	}
	return nil
}

// over reports whether nothing of a subscription matters any more: it never charges again, and what it gave has ended. What is disputed may
// be won, and gives again what is left of it.
func (r Reconciler) over(s subscription.State) bool {
	return s.Ended && (s.Paid == nil || s.Paid.Refunded || s.Paid.Until.Before(r.Now()))
}

// differences are what was healed. One that is nobody's cannot be: the processor knows no account for it.
func differences(change intake.Change, account, id string) []api.BillingDifference {
	if change.Older || change.Account == "" {
		return nil // kept since by somebody who asked later; or nobody's
	}
	had := subscription.State{ID: id}
	if change.Had != nil {
		had = *change.Had
	}
	found := subscription.Differences(had, *change.Has)
	for i := range found {
		found[i].Healed = true
	}
	return found
}
