// Package processor defines the payment processor that billing depends on: Stripe in production, or the sandbox on one machine.
package processor

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/services/billing/internal/subscription"
)

// Processor is an external payment processor. Reads always return the whole current state; events only signal that something changed.
// Methods return problem.Unavailable if the processor cannot be reached.
type Processor interface {
	// Customer returns the processor's customer for account, creating one if there is none. Calls with the same attempt return the same
	// customer, even if a crash lost the first reply.
	Customer(ctx context.Context, account, email, attempt string) (id string, err error)
	// Checkout opens a checkout session for the plan on sale. It returns ErrNoCustomer if the customer has been deleted.
	Checkout(ctx context.Context, order Order) (Session, error)
	// Portal opens a page where the customer changes the card and reads invoices. It returns ErrNoCustomer if the customer has been
	// deleted.
	Portal(ctx context.Context, customer, returnURL string) (url string, err error)
	// Subscription returns the current state of a subscription. It returns ErrNotFound if there is none with this id.
	Subscription(ctx context.Context, id string) (subscription.State, error)
	// Subscriptions lists the ids of all subscriptions of a customer, ended ones included. For a deleted customer it returns
	// ErrNoCustomer or no ids.
	Subscriptions(ctx context.Context, customer string) ([]string, error)
	// AccountSubscriptions lists the ids of all subscriptions that name an account, those of unknown customers and ended ones included.
	AccountSubscriptions(ctx context.Context) ([]string, error)
	// ExpireCheckouts closes every open checkout session of an account.
	ExpireCheckouts(ctx context.Context) error
	// Charge charges a pending invoice immediately and does nothing to any other invoice. A declined card is not an error; it shows in
	// the subscription's state.
	Charge(ctx context.Context, invoice string) error
	// SetCancelAtPeriodEnd schedules a subscription to end with its current period, or removes that schedule.
	SetCancelAtPeriodEnd(ctx context.Context, id string, cancel bool) error
	// CheckOffer compares what the processor sells with the plan table and returns an error that lists the differences.
	CheckOffer(ctx context.Context) error
}

// Order is a request for a checkout session.
type Order struct {
	Account   string
	Customer  string
	ReturnURL string
	// Attempt identifies the purchase attempt. Orders with the same attempt get the same session, so two clicks cannot pay twice.
	Attempt   string
	ExpiresAt time.Time // when the session closes, paid or not
}

// Session is a checkout page, open until it is paid or expires.
type Session struct {
	ID  string
	URL string
}

// Event is a webhook event whose signature has been verified.
type Event struct {
	ID           string
	Type         string // the processor's name for it, used in logs
	Subscription string // the subscription to read; empty if the event is irrelevant to billing
}

// Errors that processors return.
var (
	ErrNotFound   = errors.New("not found at the payment processor")
	ErrNoCustomer = errors.New("customer deleted at the payment processor")
	ErrSignature  = errors.New("invalid or expired signature")
	ErrMalformed  = errors.New("malformed event")
)
