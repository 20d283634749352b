package account

import (
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// DeclinedShown is for how long a person sees that a request was declined.
const DeclinedShown = 30 * 24 * time.Hour

// When is an instant as people read it.
func When(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04 UTC") }

// Better is the tier that comes later in the table.
func Better(a, b api.Tier) api.Tier {
	for i := len(api.Tiers) - 1; i >= 0; i-- {
		if t := api.Tiers[i].Tier; t == a || t == b {
			return t
		}
	}
	return a
}

func refuse(format string, args ...any) error {
	return problem.New(problem.InvalidParameter, format, args...)
}

// What a person may be told who wants something of their keys that cannot be. All are invalid_parameter.

// NoAuthenticator refuses a key to a person without a confirmed authenticator.
func NoAuthenticator() error {
	return refuse("Set up your authenticator first: a key cannot be had without one.")
}

// Suspended refuses a key to a suspended account.
func Suspended() error {
	return refuse("Your account is suspended. Its keys can be revoked; everything else waits until it is resumed.")
}

// ClosedLater refuses to close a suspended account.
func ClosedLater() error {
	return refuse("Your account is suspended. It can be closed once it is resumed.")
}

// NoPlace refuses a request beyond MaxActive.
func NoPlace() error {
	return refuse("You have %d active keys and open requests already. Revoke a key or withdraw a request first.", MaxActive)
}

// NotOpen refuses to collect or withdraw a request in a state that is no longer, or not yet, there for it.
func NotOpen(state RequestState) error {
	if state == Declined {
		return refuse("This request was declined.")
	}
	return refuse("This request was dealt with already, perhaps in another tab. A key is shown once: if you missed it, rotate it.")
}

// NotRotatable refuses a successor to a key that has ended or has one.
func NotRotatable() error {
	return refuse("This key has ended or was rotated already. If you missed the new one, revoke this one and rotate that.")
}

// InGrace refuses a successor to a key whose predecessor still goes on.
func InGrace() error {
	return refuse("The key that this one replaced still goes on. Revoke the old one first, or wait until it has ended.")
}

// OwnAlready refuses to connect a key to the account that has it.
func OwnAlready() error { return refuse("This key belongs to your account already.") }

// Connected refuses to connect a key that is a person's.
func Connected() error { return refuse("This key belongs to somebody's account already.") }

// KeySuspended refuses to connect the key of a suspended account.
func KeySuspended() error {
	return refuse("The access of this key is suspended. Write to the operator of the service.")
}

// KeyEnded refuses to connect a key that has ended.
func KeyEnded(status Status) error { return refuse("This key cannot be connected: it is %s.", status) }

// NoPlaceFor refuses to connect the keys of an account beyond MaxActive.
func NoPlaceFor(keys int) error {
	return refuse("%d active keys would come along, and an account may have %d, open requests included. Revoke a key or withdraw a request first.",
		keys, MaxActive)
}
