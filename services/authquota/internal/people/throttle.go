// Package people computes the delay after failed attempts. It slows guessing down and never locks an account: the right value
// is accepted after a delay, and each delay is bounded.
//
// Failures are counted per subject:
//
//   - An e-mail address together with the client's network, so that an attacker elsewhere cannot delay the owner.
//   - A network, against attempts on many addresses.
//   - For the second factor, an account together with the network, and the account alone against attempts from many networks,
//     except from browsers known to the account.
//   - A session, for confirmations within it.
//
// Addresses without an account are counted in the same way, so that a delay reveals nothing. The counts are in the database,
// which signing in needs anyway, so that a Redis outage does not prevent it.
package people

import (
	"net/netip"
	"time"
)

// AttemptRule computes delays for one kind of subject.
type AttemptRule struct {
	Free   int           // failures without a delay
	First  time.Duration // delay after the next failure; it doubles with each further one
	Most   time.Duration // maximum delay
	Forget time.Duration // failures are forgotten after this time without one
}

// The rules.
var (
	AddressRule = AttemptRule{Free: 9, First: 30 * time.Second, Most: 15 * time.Minute, Forget: 24 * time.Hour} // address and network together
	NetworkRule = AttemptRule{Free: 100, First: 30 * time.Second, Most: 15 * time.Minute, Forget: time.Hour}    // a network alone
	AccountRule = AttemptRule{Free: 100, First: 30 * time.Second, Most: time.Minute, Forget: time.Hour}         // the second factor of an account
	SessionRule = AttemptRule{Free: 9, First: 30 * time.Second, Most: time.Minute, Forget: 24 * time.Hour}      // confirmations by a signed-in person
)

// Wait returns the remaining delay at now after a number of failures with the last one at last, or 0.
func (r AttemptRule) Wait(failures int, last, now time.Time) time.Duration {
	if failures <= r.Free || now.Sub(last) >= r.Forget {
		return 0
	}
	cost := r.First
	for range failures - r.Free - 1 {
		if cost >= r.Most {
			break
		}
		cost *= 2
	}
	cost = min(cost, r.Most)
	return max(0, min(cost, last.Add(cost).Sub(now))) // a last in the future, after the clock was set back, does not increase the delay
}

// Count returns the number of failures after another one at now.
func (r AttemptRule) Count(failures int, last, now time.Time) int {
	if now.Sub(last) >= r.Forget {
		return 1
	}
	return failures + 1
}

// NetworkOf returns the network of an IP address: /24 for IPv4, /48 for IPv6. An attacker may control all addresses of such a
// network. Invalid addresses share one network.
func NetworkOf(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return "unknown"
	}
	return network.String()
}
