package reconcile

import (
	"context"
	"errors"

	"opportunity.internal/services/billing/internal/store"
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
func (r Reconciler) HandleEvent(ctx context.Context, e subscription.Event) (Outcome, error) {
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
	case errors.Is(err, subscription.ErrNotFound):
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

// Refresh takes a ticket, reads a subscription from the processor, and stores its state. It returns
// subscription.ErrNotFound if the processor does not have the subscription. The event is marked as
// processed even then, and the stored state stays: access ends with the paid period.
func (r Reconciler) Refresh(ctx context.Context, id string, cause store.Cause) (store.Change, error) {
	fetched := store.Fetched{Cause: cause}
	var err error
	if fetched.Ticket, err = r.Store.Ticket(ctx); err != nil {
		return store.Change{}, err
	}
	state, err := r.Processor.Subscription(ctx, id)
	switch {
	case err == nil:
		fetched.State = &state
	case !errors.Is(err, subscription.ErrNotFound):
		return store.Change{}, err
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
