package stripe

import (
	"errors"
	"time"
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

// Event is a webhook event whose signature has been verified.
type Event struct {
	ID           string
	Type         string // Stripe's name for it, used in logs
	Subscription string // the subscription to read; empty if the event is irrelevant to billing
}

// Errors that the client returns.
var (
	ErrNotFound   = errors.New("not found at the payment processor")
	ErrNoCustomer = errors.New("customer deleted at the payment processor")
	ErrSignature  = errors.New("invalid or expired signature")
	ErrMalformed  = errors.New("malformed event")
)
