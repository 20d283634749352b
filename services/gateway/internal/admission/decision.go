package admission

import (
	"net/http"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
)

// Verdict is the result of an admission.
type Verdict string

const (
	Admitted Verdict = "admitted" // charged to the minute, the day and the service
	Rejected Verdict = "refused"  // by at least one limit; nothing was charged
	Outdated Verdict = "epoch"    // the cached principal is out of date; nothing was charged

	// Internal to this package; Admit retries after them.
	wrongDay Verdict = "day"     // the Redis clock is on another day
	missing  Verdict = "missing" // the day has no counters
	late     Verdict = "late"    // the script ran after the deadline of the batch
)

// Day is a UTC day, counted from 1970-01-01.
type Day int64

func dayOf(t time.Time) Day { return Day(t.Unix() / 86400) }

// Start returns the first instant of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String formats the day as 2026-11-20.
func (d Day) String() string { return counter.DayOf(d.Start()) }

func (d Day) key() string { return counter.Day(d.String()) }

// Decision is the result of one admission, with the figures for the response headers. Only Verdict
// is set if it is Outdated.
type Decision struct {
	Verdict Verdict
	Limits  api.Limits
	Clock   time.Time     // Redis time, shared by all replicas
	Day     Day           // the day to which the call was, or would have been, charged
	Today   int           // calls of the account on that day, including this one if admitted
	Recent  int           // calls of the account in the minute window, including this one if admitted
	Room    time.Duration // until the minute window has more room

	Base bool // the call counts against the share of the base tier

	ServiceFull, BaseFull, DayFull, MinuteFull bool // exceeded limits
}

func (d Decision) untilMidnight() time.Duration { return (d.Day + 1).Start().Sub(d.Clock) }

// RetryAfter returns the time until the call would be admitted if no other call is made: the
// longest wait of the exceeded limits.
func (d Decision) RetryAfter() time.Duration {
	var wait time.Duration
	if d.MinuteFull {
		wait = d.Room
	}
	if d.DayFull || d.ServiceFull || d.BaseFull {
		wait = max(wait, d.untilMidnight())
	}
	return wait
}

// Limit returns the code of the exceeded limit. If several are exceeded, the order is: shared
// capacity, day, minute.
func (d Decision) Limit() problem.Code {
	switch {
	case d.ServiceFull, d.BaseFull:
		return problem.ServiceCapacityReached
	case d.DayFull:
		return problem.DailyLimitReached
	}
	return problem.MinuteLimitReached
}

// Problem returns the 429 error with the exceeded limit and the wait.
func (d Decision) Problem() *problem.Error {
	code, message := d.Limit(), ""
	switch code {
	case problem.ServiceCapacityReached:
		message = "Daily capacity reached (shared by all accounts; it resets at 00:00 UTC)."
		if !d.ServiceFull {
			message = "Daily capacity of the " + string(api.BaseTier) +
				" tier reached (shared by all of its accounts; it resets at 00:00 UTC)."
		}
	case problem.DailyLimitReached:
		message = "Daily limit reached (" + strconv.Itoa(d.Limits.PerDay) + " requests per UTC day; it resets at 00:00 UTC)."
	default:
		message = "Minute limit reached (" + strconv.Itoa(d.Limits.PerMinute) + " requests in any 60 seconds)."
	}
	return (&problem.Error{Code: code, Message: message}).RetryIn(d.RetryAfter())
}

// SetHeaders sets the rate limit headers: the day in X-RateLimit-*, day and minute in the fields of
// draft-ietf-httpapi-ratelimit-headers. Times are in seconds, rounded up.
func (d Decision) SetHeaders(h http.Header) {
	var buffer [256]byte
	text, ends := buffer[:0], [len(rateLimitHeaders)]int{}
	number := func(before string, n int) { text = strconv.AppendInt(append(text, before...), int64(n), 10) }
	remaining := max(0, d.Limits.PerDay-d.Today)
	number("", d.Limits.PerDay)
	ends[0] = len(text)
	number("", remaining)
	ends[1] = len(text)
	number("", int(d.Day+1)*86400)
	ends[2] = len(text)
	number(`"minute";q=`, d.Limits.PerMinute)
	number(`;w=60, "day";q=`, d.Limits.PerDay)
	text = append(text, ";w=86400"...)
	ends[3] = len(text)
	number(`"minute";r=`, max(0, d.Limits.PerMinute-d.Recent))
	number(";t=", seconds(d.Room))
	number(`, "day";r=`, remaining)
	number(";t=", seconds(d.untilMidnight()))
	ends[4] = len(text)
	all, start, values := string(text), 0, make([]string, len(ends)) // two allocations for all headers
	for i, name := range rateLimitHeaders {
		values[i] = all[start:ends[i]]
		start, h[name] = ends[i], values[i:i+1:i+1]
	}
}

// rateLimitHeaders are the names of the headers that SetHeaders sets.
var rateLimitHeaders = [...]string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
	"RateLimit-Policy", "RateLimit"}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
