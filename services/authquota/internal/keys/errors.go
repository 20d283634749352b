package keys

import (
	"time"

	"opportunity.internal/pkg/problem"
)

// DeclinedShown is the time for which a declined request stays on the page.
const DeclinedShown = 30 * 24 * time.Hour

func rejection(format string, args ...any) error {
	return problem.New(problem.InvalidParameter, format, args...)
}

// Errors for people who manage keys on the account pages. All are invalid_parameter.

// Suspended returns the error for a key request of a suspended account.
func Suspended() error {
	return rejection("Your account is suspended. You can revoke keys; everything else is possible again when it is resumed.")
}

// NoTestKey returns the error for a request for a test key of an account that has one, or is not on
// the base tier.
func NoTestKey() error {
	return rejection("Your account cannot get another test key: an account on the free plan has one. Revoke it first, or request a live key.")
}

// NotOpen returns the error for collecting or withdrawing a request whose state does not allow it.
func NotOpen(state RequestState) error {
	switch state {
	case Pending:
		return rejection("This request is waiting for approval.")
	case Declined:
		return rejection("This request was declined.")
	}
	return rejection("This request was already collected or withdrawn, perhaps in another tab. A key is shown once: if you missed it, rotate it.")
}

// NotRotatable returns the error for rotating a key that has ended or was rotated.
func NotRotatable() error {
	return rejection("This key has ended or was already rotated. If you missed the new key, revoke this one and rotate the new one.")
}

// Connected returns the error for connecting a key of another person's account.
func Connected() error { return rejection("This key already belongs to another person's account.") }

// KeyEnded returns the error for connecting a key that has ended.
func KeyEnded(status Status) error {
	return rejection("This key cannot be connected: it is %s.", status)
}
