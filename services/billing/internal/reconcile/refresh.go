package reconcile

import (
	"context"
	"errors"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

// ActorProcessor is the actor of webhook events in the audit log.
const ActorProcessor = "processor"

// Outcome is the result of handling a webhook event, as counted in metrics.
type Outcome string

const (
	Done       Outcome = "done"
	Duplicate  Outcome = "repeated"
	Irrelevant Outcome = "irrelevant" // other event type, or subscription of no known account
)

// HandleEvent processes a webhook event whose signature was verified. Duplicates are dropped before
// the processor is called.
func (r Reconciler) HandleEvent(ctx context.Context, e stripe.Event) (Outcome, error) {
	if e.Subscription == "" {
		return Irrelevant, nil
	}
	processed, err := r.Store.EventProcessed(ctx, e.ID)
	if err != nil || processed {
		return Duplicate, err
	}
	log := r.Log.With("subscription_id", e.Subscription, "event_id", e.ID, "event_type", e.Type)
	change, err := r.Refresh(ctx, e.Subscription, store.Cause{Actor: ActorProcessor, Event: e.ID})
	switch {
	case errors.Is(err, stripe.ErrNotFound):
		log.WarnContext(ctx, "webhook event ignored: subscription not found at processor")
		return Irrelevant, nil
	case err != nil:
		return "", err
	case change.Duplicate:
		return Duplicate, nil
	case change.Account == "":
		log.WarnContext(ctx, "webhook event ignored: subscription of unknown account")
		return Irrelevant, nil
	}
	return Done, nil
}

// Refresh reads a subscription, charges its pending renewal if there is one, and stores the
// resulting state. It returns stripe.ErrNotFound if the processor does not have the subscription.
// The event is marked as processed even then, and the stored state stays: access ends with the paid
// period.
func (r Reconciler) Refresh(ctx context.Context, id string, cause store.Cause) (store.Change, error) {
	ticket, state, err := r.fetch(ctx, id)
	if err == nil && chargeable(state) {
		if err := r.chargeRenewal(ctx, state); err != nil {
			return store.Change{}, err
		}
		ticket, state, err = r.fetch(ctx, id)
	}
	unknown := errors.Is(err, stripe.ErrNotFound)
	if err != nil && !unknown {
		return store.Change{}, err
	}
	fetched := store.Fetched{Ticket: ticket, Cause: cause}
	if !unknown {
		fetched.State = &state
	}
	change, applyErr := r.Store.Apply(ctx, fetched)
	if applyErr != nil {
		return store.Change{}, applyErr
	}
	if r.OnChange != nil && change.Account != "" && !change.Duplicate {
		r.OnChange(change.Account)
	}
	return change, err
}

// fetch takes a ticket and then reads the state.
func (r Reconciler) fetch(ctx context.Context, id string) (ticket int64, state subscription.State, err error) {
	if ticket, err = r.Store.Ticket(ctx); err != nil {
		return 0, state, err
	}
	state, err = r.Stripe.Subscription(ctx, id)
	return ticket, state, err
}

// chargeable reports whether a subscription has a pending renewal that billing should charge now. A
// cancelled subscription is left to the processor.
func chargeable(s subscription.State) bool {
	return s.PendingInvoice != "" && s.Account != "" && s.IsPlan() && !s.Ended && !s.CancelAtPeriodEnd
}

// chargeRenewal returns an error only if the processor is unavailable, so that the event is sent
// again. If the processor rejects the charge, for example because the API key lacks the permission,
// it would reject it every time, and failing the event would delay the processor's own charge
// further. That case is only logged.
func (r Reconciler) chargeRenewal(ctx context.Context, s subscription.State) error {
	err := r.Stripe.Charge(ctx, s.PendingInvoice)
	if unavailable := new(problem.Error); err == nil || errors.As(err, &unavailable) {
		return err
	}
	r.Log.ErrorContext(ctx, "renewal charge rejected, left to the processor",
		"account_id", s.Account, "subscription_id", s.ID, "error", err.Error())
	return nil
}
