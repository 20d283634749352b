package admission

import (
	"time"

	"opportunity.internal/pkg/api"
)

// Span is the length of the minute window.
const Span = time.Minute

// Usage holds the counters that the script reads from Redis.
type Usage struct {
	Window  []time.Time // admissions of the account, newest first
	Today   int         // calls of the account on the day of the call
	Service int         // calls of all accounts on that day
	Base    int         // of these, calls of the base tier
	Latest  time.Time   // the latest admission of any account on that day
}

// Now returns clock, or the latest admission if clock is up to maxAhead earlier, so that a small
// step back does not change the windows. A later one is from a clock that ran ahead, and does not
// count.
func (u Usage) Now(clock time.Time) time.Time {
	if u.Latest.After(clock) && u.Latest.Sub(clock) <= maxAhead {
		return u.Latest
	}
	return clock
}

// Decide implements the rule of admit.lua in Go: it returns the decision on a call at clock and the
// usage after it. It documents the rule and is the reference for the tests of the script.
//
// The minute limit is exact: a call is rejected while the limit-th newest admission is younger than
// Span, so no interval of that length contains more admissions than the limit. Admissions later
// than now are forgotten: the clock ran ahead. All limits are checked before anything is charged.
func Decide(u Usage, p api.Principal, capacity, baseCap int, clock time.Time) (Decision, Usage) {
	limits := p.Limits
	now := u.Now(clock)
	for len(u.Window) > 0 && u.Window[0].After(now) {
		u.Window = u.Window[1:]
	}
	window := u.Window
	for len(window) > 0 && now.Sub(window[len(window)-1]) >= Span {
		window = window[:len(window)-1]
	}
	d := Decision{
		Verdict: Rejected, Limits: limits, Base: isBase(&p), Clock: clock, Day: dayOf(now), Today: u.Today,
		Recent:      len(window),
		ServiceFull: u.Service >= capacity, DayFull: u.Today >= limits.PerDay, MinuteFull: len(window) >= limits.PerMinute,
		BaseFull: isBase(&p) && u.Base >= baseCap,
	}
	first := now // Room ends when this admission leaves the window
	switch {
	case d.MinuteFull:
		first = window[limits.PerMinute-1]
	case len(window) > 0:
		first = window[len(window)-1]
	}
	d.Room = first.Add(Span).Sub(clock)
	if d.ServiceFull || d.BaseFull || d.DayFull || d.MinuteFull {
		return d, u
	}
	d.Verdict, d.Today, d.Recent = Admitted, d.Today+1, d.Recent+1
	if d.Base {
		u.Base++
	}
	return d, Usage{Base: u.Base, Window: append([]time.Time{now}, window...), Today: u.Today + 1, Service: u.Service + 1,
		Latest: now}
}
