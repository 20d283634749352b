package reconcile

import (
	"context"
	"errors"

	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

// ActorProcessor is the actor of webhook events in the audit log.
const ActorProcessor = "processor"

// Outcomes of webhook events, as counted in metrics.
const (
	Done       = "done"
	Irrelevant = "irrelevant" // other event type, or subscription of no known account
)

// HandleEvent processes a webhook event whose signature was verified. An event that arrives again
// changes nothing.
func (r Reconciler) HandleEvent(ctx context.Context, e subscription.Event) (outcome string, err error) {
	if e.Subscription == "" {
		return Irrelevant, nil
	}
	change, err := r.Refresh(ctx, e.Subscription, store.Cause{Actor: ActorProcessor, Event: e.ID})
	ignored := ""
	switch {
	case errors.Is(err, subscription.ErrNotFound):
		ignored = "subscription not found at processor"
	case err != nil:
		return "", err
	case change.Account == "":
		ignored = "subscription of unknown account"
	default:
		return Done, nil
	}
	r.Log.WarnContext(ctx, "webhook event ignored: "+ignored, "subscription_id", e.Subscription, "event_id", e.ID,
		"event_type", e.Type)
	return Irrelevant, nil
}

// Refresh takes a ticket, reads a subscription from the processor, and stores its state. It returns
// subscription.ErrNotFound if the processor does not have the subscription. The stored state then
// stays: access ends with the paid period.
func (r Reconciler) Refresh(ctx context.Context, id string, cause store.Cause) (change store.Change, err error) {
	ticket, err := r.Store.Ticket(ctx)
	if err != nil {
		return change, err
	}
	state, err := r.Processor.Subscription(ctx, id)
	if err != nil {
		return change, err
	}
	if change, err = r.Store.Apply(ctx, ticket, cause, state); err != nil {
		return change, err
	}
	if r.OnChange != nil && change.Account != "" {
		r.OnChange()
	}
	return change, nil
}
