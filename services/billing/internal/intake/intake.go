// Package intake is the one way by which states of subscriptions get in: for an announcement of the processor, a comparison with it, and
// for what an account did itself.
//
// An announcement only says that something changed. The whole state is asked for after it came, under a ticket taken before the
// question, and is kept only over a state with a smaller ticket. So whatever was announced before a ticket is in the state that comes
// with it, and answers that overtake each other, or announcements that come twice, late or in the wrong order, leave the same: what the
// processor had last. No clock is compared.
//
// Of a renewal that the processor has made, and would charge only later, the state is a question to us: the paid period is over. It is
// charged first, and the state is asked for once more.
//
// What the processor or the database does not answer fails as a whole, with nothing claimed: the announcement comes again.
package intake

import (
	"context"
	"errors"
	"log/slog"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/subscription"
)

// Store is what keeps states.
type Store interface {
	// Ticket is a number greater than all before.
	Ticket(ctx context.Context) (int64, error)
	// Claimed reports whether an event was dealt with.
	Claimed(ctx context.Context, event string) (bool, error)
	// Take keeps what was fetched and all that follows from it, or nothing.
	Take(ctx context.Context, f Fetched) (Change, error)
}

// Source reads states.
type Source interface {
	Subscription(ctx context.Context, id string) (subscription.State, error)
	// Charge charges a renewal that waits.
	Charge(ctx context.Context, invoice string) error
}

// Cause is why a state is read: for the audit log.
type Cause struct {
	Actor  string // an account, an operator, or what part of the service
	Action string // what the actor did; empty: only looked
	Event  string // the processor's announcement; it is claimed. Empty: there is none
}

// Processor is the Actor of what the processor announced.
const Processor = "processor"

// Fetched is a state with what is needed to keep it.
type Fetched struct {
	Ticket int64
	Cause  Cause
	State  *subscription.State // nil: the processor has none, so that there is nothing but the event to keep
}

// Change is what became of a state.
type Change struct {
	Repeated bool                // the event had been claimed, and nothing was written
	Older    bool                // what is kept was asked for later
	Account  string              // whose it is; empty: nobody's whom we know
	Had      *subscription.State // what was kept before; nil: nothing
	Has      *subscription.State // what is kept now; nil: nothing
}

// Intake takes states in.
type Intake struct {
	Store  Store
	Source Source
	Log    *slog.Logger
	// Changed is called after something was committed for an account that authquota may have to be told; may be nil.
	Changed func(account string)
}

// Outcome is how an announcement ended, for the count of them.
type Outcome string

const (
	Done       Outcome = "done"
	Repeated   Outcome = "repeated"
	Irrelevant Outcome = "irrelevant" // of a kind, or of a subscription, that is not ours
)

// Announced deals with an announcement that is known to be the processor's.
func (in Intake) Announced(ctx context.Context, e processor.Event) (Outcome, error) {
	if e.Subscription == "" {
		return Irrelevant, nil
	}
	claimed, err := in.Store.Claimed(ctx, e.ID)
	if err != nil || claimed { // a repeat costs the processor no question
		return Repeated, err
	}
	change, err := in.Refresh(ctx, e.Subscription, Cause{Actor: Processor, Event: e.ID})
	switch {
	case errors.Is(err, processor.ErrUnknown):
		in.Log.WarnContext(ctx, "announcement of a subscription that the processor does not have", "kind", e.Kind, "event", e.ID)
		return Irrelevant, nil
	case err != nil:
		return "", err
	case change.Repeated:
		return Repeated, nil
	case change.Account == "":
		in.Log.WarnContext(ctx, "announcement of a subscription that is nobody's", "kind", e.Kind, "event", e.ID)
		return Irrelevant, nil
	}
	return Done, nil
}

// Refresh reads a subscription, charges its renewal where that waits, and keeps what the processor says then. One that the processor does
// not have is processor.ErrUnknown; the event is claimed all the same, and what was kept stays: it ends by itself at the end of what was
// paid.
func (in Intake) Refresh(ctx context.Context, id string, why Cause) (Change, error) {
	ticket, state, err := in.ask(ctx, id)
	if err == nil && renews(state) {
		if err := in.charge(ctx, state); err != nil {
			return Change{}, err
		}
		ticket, state, err = in.ask(ctx, id)
	}
	unknown := errors.Is(err, processor.ErrUnknown)
	if err != nil && !unknown {
		return Change{}, err
	}
	fetched := Fetched{Ticket: ticket, Cause: why}
	if !unknown {
		fetched.State = &state
	}
	change, takeErr := in.Store.Take(ctx, fetched)
	if takeErr != nil {
		return Change{}, takeErr
	}
	if in.Changed != nil && change.Account != "" && !change.Repeated {
		in.Changed(change.Account)
	}
	return change, err
}

// ask reads a state, under a ticket that was taken before.
func (in Intake) ask(ctx context.Context, id string) (ticket int64, state subscription.State, err error) {
	if ticket, err = in.Store.Ticket(ctx); err != nil {
		return 0, state, err
	}
	state, err = in.Source.Subscription(ctx, id)
	return ticket, state, err
}

// renews reports whether a subscription has a renewal that waits and that is ours to hurry. Whoever has cancelled is charged when the
// processor does it, and not because of the cancelling.
func renews(s subscription.State) bool {
	return s.Waiting != "" && s.Account != "" && s.Plan() && !s.Ended && !s.CancelAtPeriodEnd
}

// charge fails where the processor is away, so that the announcement comes again. What the processor refuses, such as for a key that may
// not charge, would be refused again, and an announcement that is never taken in makes it wait for longer still: it charges by itself.
func (in Intake) charge(ctx context.Context, s subscription.State) error {
	err := in.Source.Charge(ctx, s.Waiting)
	if away := new(problem.Error); err == nil || errors.As(err, &away) {
		return err
	}
	in.Log.ErrorContext(ctx, "a renewal is not charged at once", "account", s.Account, "subscription", s.ID, "error", err.Error())
	return nil
}
