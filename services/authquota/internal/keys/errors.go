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

// NoAuthenticator returns the error for a key request of a person without a confirmed authenticator.
func NoAuthenticator() error {
	return rejection("Set up your authenticator first. You need one to get a key.")
}

// Suspended returns the error for a key request of a suspended account.
func Suspended() error {
	return rejection("Your account is suspended. You can revoke keys; everything else is possible again when it is resumed.")
}

// LimitReached returns the error for a request beyond MaxActive.
func LimitReached() error {
	return rejection("You have %d active keys and pending requests, the most an account can have. Revoke a key or withdraw a request first.", MaxActive)
}

// NoTestKey returns the error for a request for a test key of an account that has one, or is not on the base tier.
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

// InGrace returns the error for rotating a key whose predecessor still works.
func InGrace() error {
	return rejection("The key that this one replaced still works. Revoke the old one first, or wait until it has ended.")
}

// OwnAlready returns the error for connecting a key to the account that has it.
func OwnAlready() error { return rejection("This key already belongs to your account.") }

// Connected returns the error for connecting a key of another person's account.
func Connected() error { return rejection("This key already belongs to another person's account.") }

// KeySuspended returns the error for connecting the key of a suspended account.
func KeySuspended() error {
	return rejection("This key is suspended. Write to the operator of the service.")
}

// KeyEnded returns the error for connecting a key that has ended.
func KeyEnded(status Status) error {
	return rejection("This key cannot be connected: it is %s.", status)
}

// LimitExceeded returns the error for connecting an account whose keys exceed MaxActive.
func LimitExceeded(keys int) error {
	return rejection("This key comes with %d active keys, and an account can have %d, pending requests included. Revoke a key or withdraw a request first.",
		keys, MaxActive)
}
