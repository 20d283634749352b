// Package throttle decides how long whoever guesses must wait. It slows down and never locks out: the right answer is accepted
// after the wait, and every wait has an end.
//
// Who is counted is a subject: an address of an account together with the network that tries, so that a stranger elsewhere cannot
// hold up its owner; a network alone, for one that tries many addresses; for the second factor an account together with the network,
// and the account alone for one that tries from many networks, but never a browser that the account knows; a session, for what its
// person is asked again. Addresses that nobody has are counted in the same way, so that a wait tells nothing.
// The counts are kept in the database, which every sign-in needs anyhow, so that nobody is locked out while Redis is away.
package throttle

import (
	"net/netip"
	"time"
)

// Rule is how failures of one kind of subject are counted.
type Rule struct {
	Free   int           // failures that cost nothing
	First  time.Duration // cost of the next one; each further one costs twice as much
	Most   time.Duration // the greatest cost
	Forget time.Duration // after this long without a failure all are forgotten
}

// The rules.
var (
	Address = Rule{Free: 9, First: 30 * time.Second, Most: 15 * time.Minute, Forget: 24 * time.Hour} // address and network together
	Network = Rule{Free: 100, First: 30 * time.Second, Most: 15 * time.Minute, Forget: time.Hour}    // a network alone
	Account = Rule{Free: 100, First: 30 * time.Second, Most: time.Minute, Forget: time.Hour}         // the second factor of an account
	Inside  = Rule{Free: 9, First: 30 * time.Second, Most: time.Minute, Forget: 24 * time.Hour}      // who has come in already
)

// Wait is how long after now the next try is looked at, or 0: failures have been counted, the last of them at last.
func (r Rule) Wait(failures int, last, now time.Time) time.Duration {
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
	return max(0, min(cost, last.Add(cost).Sub(now))) // a last in the future, by a clock that was set back, costs no more
}

// Count is the number of failures after one more at now.
func (r Rule) Count(failures int, last, now time.Time) int {
	if now.Sub(last) >= r.Forget {
		return 1
	}
	return failures + 1
}

// NetworkOf is the network of a client's IP address, coarse enough for whoever can choose among its addresses: /24 for IPv4, /48 for
// IPv6. What is no address is one network of its own.
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
