package edge

import (
	"context"
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

// Rejections wait for a moment, so that a caller that repeats its request at once costs nothing
// meanwhile: 32 clients that do so would otherwise occupy a core with rejections. Beyond maxPauses
// at a time, they are sent immediately.
const (
	pause     = 500 * time.Millisecond
	maxPauses = 256
)

// anonymous limits the work for callers without a key by network and in total, and for those with a
// key the work that is not charged to their account. Networks and accounts with the same hash share
// a limit.
type anonymous struct {
	seed     maphash.Seed
	by       [1024]*rate.Limiter
	everyone *rate.Limiter
	pauses   chan struct{}
}

func newAnonymous() *anonymous {
	l := &anonymous{seed: maphash.MakeSeed(), everyone: rate.NewLimiter(everyoneRate, everyoneBurst),
		pauses: make(chan struct{}, maxPauses)}
	for i := range l.by {
		l.by[i] = rate.NewLimiter(networkRate, networkBurst)
	}
	return l
}

// admit counts work of a caller without a key. It returns an error (429) beyond a limit.
func (l *anonymous) admit(ctx context.Context, from netip.Addr, units int, now time.Time) error {
	limiter := l.by[maphash.Comparable(l.seed, networkOf(from))%uint64(len(l.by))]
	switch {
	case !limiter.AllowN(now, units):
		return l.tooMany(ctx, "Too many requests without an API key from your network.")
	case !l.everyone.AllowN(now, units):
		return l.tooMany(ctx, "Too many requests without an API key at the moment.")
	}
	return nil
}

func (l *anonymous) ofAccount(id string) *rate.Limiter {
	return l.by[maphash.String(l.seed, id)%uint64(len(l.by))]
}

// tooMany returns an error (429) after a pause.
func (l *anonymous) tooMany(ctx context.Context, text string) error {
	select {
	case l.pauses <- struct{}{}:
		defer func() { <-l.pauses }()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	default:
	}
	return problem.New(problem.MinuteLimitReached, "%s", text).Retry(time.Second)
}

func (e *Edge) limit(x *exchange) error {
	return e.anonymous.admit(x.Request.Context(), e.client(x.Request), 1, e.Now())
}
