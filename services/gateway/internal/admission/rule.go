package admission

import (
	"time"

	"opportunity.internal/pkg/api"
)

// Span is the length of the minute window.
const Span = time.Minute

// Spent is what an account and the service have used: what the script finds in Redis.
type Spent struct {
	Window  []time.Time // admissions of the account, newest first
	Today   int         // calls of the account on the day of the call
	Service int         // calls of all accounts on that day
	Latest  time.Time   // the latest admission of any account on that day
}

// Now is the time that counts on a clock that may be set back: it stands still until the clock has caught up with the latest
// admission, so that windows forget nothing.
func (s Spent) Now(clock time.Time) time.Time {
	if s.Latest.After(clock) {
		return s.Latest
	}
	return clock
}

// Decide is the rule of admit.lua in Go: what becomes of a call at clock, and what is spent after it. It serves as the
// readable statement of the rule and holds the script to it in tests; the decision that counts is made in Redis, in one step.
//
// The minute limit is exact: a call is refused while the limit-th newest admission is younger than Span, so no interval of
// that length ever contains more admissions than the limit. All limits are checked before anything is spent.
func Decide(s Spent, limits api.Limits, capacity int, clock time.Time) (Decision, Spent) {
	now := s.Now(clock)
	window := s.Window
	for len(window) > 0 && now.Sub(window[len(window)-1]) >= Span {
		window = window[:len(window)-1]
	}
	d := Decision{
		Verdict: Refused, Limits: limits, Clock: clock, Day: dayOf(now), Today: s.Today, Recent: len(window),
		ServiceFull: s.Service >= capacity, DayFull: s.Today >= limits.PerDay, MinuteFull: len(window) >= limits.PerMinute,
	}
	first := now // the admission that has to leave the window before it has more room
	switch {
	case d.MinuteFull:
		first = window[limits.PerMinute-1]
	case len(window) > 0:
		first = window[len(window)-1]
	}
	d.Room = first.Add(Span).Sub(clock)
	if d.ServiceFull || d.DayFull || d.MinuteFull {
		return d, s
	}
	d.Verdict, d.Today, d.Recent = Admitted, d.Today+1, d.Recent+1
	return d, Spent{Window: append([]time.Time{now}, window...), Today: s.Today + 1, Service: s.Service + 1, Latest: now}
}
