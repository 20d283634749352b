package subscription

import (
	"context"
	"errors"
	"time"
)

// Processor sells the plan and charges for it: Stripe, or the sandbox. Its methods return
// problem.Unavailable during an outage of the processor.
type Processor interface {
	// Customer creates the account's customer and returns its id. Repeating the attempt, as after a
	// crash, returns the same customer.
	Customer(ctx context.Context, account, email, attempt string) (id string, err error)
	// Checkout opens a checkout session. It returns ErrNoCustomer if the customer was deleted.
	Checkout(ctx context.Context, o Order) (url string, err error)
	// ExpireCheckouts closes every open checkout session.
	ExpireCheckouts(ctx context.Context) error
	// Portal opens a session in which a customer changes its card and reads its invoices. It
	// returns ErrNoCustomer if the customer was deleted.
	Portal(ctx context.Context, customer, returnURL string) (url string, err error)
	// Subscription returns the state of a subscription, after charging a renewal that is due. It
	// returns ErrNotFound if there is no such subscription.
	Subscription(ctx context.Context, id string) (State, error)
	// Subscriptions lists the ids of all subscriptions of a customer, ended ones included. For a
	// deleted customer it returns ErrNoCustomer or no ids. An empty customer stands for all
	// customers with an account.
	Subscriptions(ctx context.Context, customer string) (ids []string, err error)
	// SetCancelAtPeriodEnd cancels or resumes a subscription.
	SetCancelAtPeriodEnd(ctx context.Context, id string, cancel bool) error
}

// Errors that a Processor returns.
var (
	ErrNotFound   = errors.New("not found at the payment processor")
	ErrNoCustomer = errors.New("customer deleted at the payment processor")
)

// Order is a request for a checkout session.
type Order struct {
	Account   string
	Customer  string
	ReturnURL string
	// Attempt identifies the purchase attempt. Orders with the same attempt get the same session,
	// so two clicks cannot pay twice.
	Attempt   string
	ExpiresAt time.Time // when the session closes, paid or not
}

// SuccessURL returns the address to which the checkout leads after the payment.
func (o Order) SuccessURL() string { return o.ReturnURL + "?checkout=done" }

// CancelURL returns the address to which the checkout leads without a payment.
func (o Order) CancelURL() string { return o.ReturnURL + "?checkout=left" }

// Event is a webhook event of the processor: a signal that a subscription may have changed.
type Event struct {
	ID           string
	Type         string // the processor's name for it, used in logs
	Subscription string // the subscription to read; empty if the event is irrelevant to billing
}
