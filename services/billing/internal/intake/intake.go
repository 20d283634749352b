// Package intake reads subscription states from the payment processor and applies them to the store. Webhook events, reconciliation and
// actions of accounts all go through it.
//
// An event only signals a change. Intake takes a ticket, an increasing number, then reads the whole state, and the store applies it only
// over a state with a smaller ticket. A state therefore includes every change made before its ticket was taken. Duplicate, late or
// reordered events and overlapping reads all end with the processor's latest state, and no clocks are compared.
//
// A renewal invoice that the processor would only charge later is charged immediately, and the state is read again, because the paid
// period is already over.
//
// If the processor or the database fails, nothing is stored and the event is not marked as processed, so the processor sends it again.
package intake

import (
	"context"
	"errors"
	"log/slog"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/subscription"
)

// Store holds subscription states.
type Store interface {
	// Ticket returns a number greater than all it returned before.
	Ticket(ctx context.Context) (int64, error)
	// EventProcessed reports whether a webhook event was processed before.
	EventProcessed(ctx context.Context, event string) (bool, error)
	// Apply stores a fetched state, the entitlement derived from it and the processed event in one transaction.
	Apply(ctx context.Context, f Fetched) (Change, error)
}

// Source reads subscriptions from the processor.
type Source interface {
	Subscription(ctx context.Context, id string) (subscription.State, error)
	// Charge charges a pending renewal invoice.
	Charge(ctx context.Context, invoice string) error
}

// Cause records the reason for reading a state, for the audit log.
type Cause struct {
	Actor  string // an account, an operator or a part of the service
	Action string // what the actor did; empty if it changed nothing itself
	Event  string // id of the webhook event, which is marked as processed; empty if there is none
}

// ActorProcessor is the Actor of webhook events.
const ActorProcessor = "processor"

// Fetched is a state read from the processor.
type Fetched struct {
	Ticket int64
	Cause  Cause
	State  *subscription.State // nil if the processor has no such subscription: only the event is stored
}

// Change is the effect of applying a state.
type Change struct {
	Duplicate bool                // the event was processed before; nothing was written
	Stale     bool                // the stored state has a greater ticket and was left unchanged
	Account   string              // empty if the subscription belongs to no known account
	Before    *subscription.State // the state stored before; nil if there was none
	After     *subscription.State // the state stored now; nil if there is none
}

// Intake fetches and applies subscription states.
type Intake struct {
	Store  Store
	Source Source
	Log    *slog.Logger
	// OnChange is called after a commit that may have changed the entitlement of account. It may be nil.
	OnChange func(account string)
}

// Outcome is the result of handling a webhook event, as counted in metrics.
type Outcome string

const (
	Done       Outcome = "done"
	Duplicate  Outcome = "repeated"
	Irrelevant Outcome = "irrelevant" // other event type, or subscription of no known account
)

// HandleEvent processes a webhook event whose signature was verified. Duplicates are dropped before the processor is called.
func (in Intake) HandleEvent(ctx context.Context, e processor.Event) (Outcome, error) {
	if e.Subscription == "" {
		return Irrelevant, nil
	}
	processed, err := in.Store.EventProcessed(ctx, e.ID)
	if err != nil || processed {
		return Duplicate, err
	}
	log := in.Log.With("subscription_id", e.Subscription, "event_id", e.ID, "event_type", e.Type)
	change, err := in.Refresh(ctx, e.Subscription, Cause{Actor: ActorProcessor, Event: e.ID})
	switch {
	case errors.Is(err, processor.ErrNotFound):
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

// Refresh reads a subscription, charges its pending renewal if there is one, and stores the resulting state. It returns
// processor.ErrNotFound if the processor does not have the subscription. The event is marked as processed even then, and the stored
// state stays: access ends with the paid period.
func (in Intake) Refresh(ctx context.Context, id string, cause Cause) (Change, error) {
	ticket, state, err := in.fetch(ctx, id)
	if err == nil && chargeable(state) {
		if err := in.chargeRenewal(ctx, state); err != nil {
			return Change{}, err
		}
		ticket, state, err = in.fetch(ctx, id)
	}
	unknown := errors.Is(err, processor.ErrNotFound)
	if err != nil && !unknown {
		return Change{}, err
	}
	fetched := Fetched{Ticket: ticket, Cause: cause}
	if !unknown {
		fetched.State = &state
	}
	change, applyErr := in.Store.Apply(ctx, fetched)
	if applyErr != nil {
		return Change{}, applyErr
	}
	if in.OnChange != nil && change.Account != "" && !change.Duplicate {
		in.OnChange(change.Account)
	}
	return change, err
}

// fetch takes a ticket and then reads the state.
func (in Intake) fetch(ctx context.Context, id string) (ticket int64, state subscription.State, err error) {
	if ticket, err = in.Store.Ticket(ctx); err != nil {
		return 0, state, err
	}
	state, err = in.Source.Subscription(ctx, id)
	return ticket, state, err
}

// chargeable reports whether a subscription has a pending renewal that billing should charge now. A cancelled subscription is left to the
// processor.
func chargeable(s subscription.State) bool {
	return s.PendingInvoice != "" && s.Account != "" && s.IsPlan() && !s.Ended && !s.CancelAtPeriodEnd
}

// chargeRenewal returns an error only if the processor is unavailable, so that the event is sent again. If the processor rejects the
// charge, for example because the API key lacks the permission, it would reject it every time, and failing the event would delay the
// processor's own charge further. That case is only logged.
func (in Intake) chargeRenewal(ctx context.Context, s subscription.State) error {
	err := in.Source.Charge(ctx, s.PendingInvoice)
	if unavailable := new(problem.Error); err == nil || errors.As(err, &unavailable) {
		return err
	}
	in.Log.ErrorContext(ctx, "renewal charge rejected, left to the processor",
		"account_id", s.Account, "subscription_id", s.ID, "error", err.Error())
	return nil
}
