// Package processor is what the service asks of whoever moves the money: Stripe, or the sandbox that stands in for it on one machine.
package processor

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/services/billing/internal/subscription"
)

// Processor is an external payment processor. It is always asked for whole states; what it announces only says that something changed.
// One that cannot be reached is problem.Unavailable.
type Processor interface {
	// Customer is the processor's customer for an account, made where there is none. Asked again in the same attempt to buy it answers
	// the same customer, also after a crash before the first answer was kept.
	Customer(ctx context.Context, account, email, attempt string) (id string, err error)
	// Checkout is a page on which a customer buys the plan that is sold. ErrNoCustomer: there is no such customer any more.
	Checkout(ctx context.Context, order Order) (Session, error)
	// Portal is a page on which a customer changes the card and reads invoices; ErrNoCustomer as above.
	Portal(ctx context.Context, customer, returnURL string) (url string, err error)
	// Subscription is the whole state of one subscription, read now. ErrUnknown: there is none.
	Subscription(ctx context.Context, id string) (subscription.State, error)
	// Subscriptions are the ids of all subscriptions of a customer, also of those that have ended; ErrNoCustomer as above, or none.
	Subscriptions(ctx context.Context, customer string) ([]string, error)
	// Charge charges an invoice that waits, at once, and harms none that waits no more. A card that is declined is no failure: the
	// state of the subscription tells.
	Charge(ctx context.Context, invoice string) error
	// SetCancel makes a subscription end by itself at its period's end, or takes that back.
	SetCancel(ctx context.Context, id string, cancel bool) error
	// CheckOffer fails with a message that says what differs where the processor does not sell the plan of the plan table at its price.
	CheckOffer(ctx context.Context) error
}

// Order is what a checkout is made of.
type Order struct {
	Account   string
	Customer  string
	ReturnURL string
	// Attempt is the same for repeats of one wish to buy, so that two clicks open one page and pay once.
	Attempt string
	Until   time.Time // when the page ends, paid or not
}

// Session is a checkout page. It is of use until it was paid or has expired.
type Session struct {
	ID  string
	URL string
}

// Event is what the processor announced, believed because it was signed.
type Event struct {
	ID           string
	Kind         string // the processor's name of it, for logs
	Subscription string // whose state to read; empty: the event is of no use to us
}

// What a processor's announcement or answer may be refused with.
var (
	ErrUnknown    = errors.New("the processor has no such subscription")
	ErrNoCustomer = errors.New("the processor has no such customer any more")
	ErrSignature  = errors.New("the signature does not fit the body, or is too old")
	ErrMalformed  = errors.New("the event cannot be read")
)
