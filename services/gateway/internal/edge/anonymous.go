package edge

import (
	"hash/maphash"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"opportunity.internal/pkg/problem"
)

// Limits for work that no account pays for, in units of about a millisecond of CPU. Together, the
// callers without a key get a tenth of a core, so that paying callers do not notice them.
const (
	networkRate, networkBurst   = 20, 100  // of one network, a second
	everyoneRate, everyoneBurst = 100, 200 // of all networks together, a second
)

// anonymous limits the work for callers without a key by network and in total, and for those with a
// key the work that is not charged to their account. Networks and accounts with the same hash share
// a limit.
type anonymous struct {
	seed     maphash.Seed
	by       [1024]*rate.Limiter
	everyone *rate.Limiter
}

func newAnonymous() *anonymous {
	l := &anonymous{seed: maphash.MakeSeed(), everyone: rate.NewLimiter(everyoneRate, everyoneBurst)}
	for i := range l.by {
		l.by[i] = rate.NewLimiter(networkRate, networkBurst)
	}
	return l
}

// admit counts work of a caller without a key. It returns an error (429) beyond a limit.
func (l *anonymous) admit(from netip.Addr, units int, now time.Time) error {
	limiter := l.by[maphash.Comparable(l.seed, networkOf(from))%uint64(len(l.by))]
	switch {
	case !limiter.AllowN(now, units):
		return tooMany("Too many requests without an API key from your network.")
	case !l.everyone.AllowN(now, units):
		return tooMany("Too many requests without an API key at the moment.")
	}
	return nil
}

// ofAccount returns the limiter for work that is not charged to an account.
func (l *anonymous) ofAccount(id string) *rate.Limiter {
	return l.by[maphash.String(l.seed, id)%uint64(len(l.by))]
}

func tooMany(text string) error {
	return problem.New(problem.MinuteLimitReached, "%s", text).Retry(time.Second)
}

// limit is the step of routes without a key that compute their response.
func (e *Edge) limit(x *exchange) error { return e.anonymous.admit(e.client(x.Request), 1, e.Now()) }
