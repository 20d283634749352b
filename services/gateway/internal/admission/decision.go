package admission

import (
	"fmt"
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

// Decision is the result of one admission, with the figures for the response headers. Only Verdict is set if it is Outdated.
type Decision struct {
	Verdict Verdict
	Limits  api.Limits
	Clock   time.Time     // Redis time, shared by all replicas
	Day     Day           // the day to which the call was, or would have been, charged
	Today   int           // calls of the account on that day, including this one if admitted
	Recent  int           // calls of the account in the minute window, including this one if admitted
	Room    time.Duration // until the minute window has more room

	ServiceFull, DayFull, MinuteFull bool // exceeded limits
}

// untilMidnight returns the remaining time of the day.
func (d Decision) untilMidnight() time.Duration { return (d.Day + 1).Start().Sub(d.Clock) }

// RetryAfter returns the time until the call would be admitted if no other call is made: the longest wait of the exceeded limits.
func (d Decision) RetryAfter() time.Duration {
	var wait time.Duration
	if d.MinuteFull {
		wait = d.Room
	}
	if d.DayFull || d.ServiceFull {
		wait = max(wait, d.untilMidnight())
	}
	return wait
}

// Limit returns the code of the exceeded limit. If several are exceeded, the order is: shared capacity, day, minute.
func (d Decision) Limit() problem.Code {
	switch {
	case d.ServiceFull:
		return problem.ServiceCapacityReached
	case d.DayFull:
		return problem.DailyLimitReached
	}
	return problem.MinuteLimitReached
}

// Problem returns the 429 error with the exceeded limit and the wait.
func (d Decision) Problem() *problem.Error {
	code := d.Limit()
	message := fmt.Sprintf("Minute limit reached (%d requests in any 60 seconds).", d.Limits.PerMinute)
	switch code {
	case problem.ServiceCapacityReached:
		message = "Daily capacity reached (shared by all accounts; it resets at 00:00 UTC)."
	case problem.DailyLimitReached:
		message = fmt.Sprintf("Daily limit reached (%d requests per UTC day; it resets at 00:00 UTC).", d.Limits.PerDay)
	}
	return problem.New(code, "%s", message).RetryIn(d.RetryAfter())
}

// SetHeaders sets the rate limit headers: the day in X-RateLimit-*, day and minute in the fields of
// draft-ietf-httpapi-ratelimit-headers. Times are in seconds, rounded up.
func (d Decision) SetHeaders(h http.Header) {
	perDay, perMinute := strconv.Itoa(d.Limits.PerDay), strconv.Itoa(d.Limits.PerMinute)
	remaining := strconv.Itoa(max(0, d.Limits.PerDay-d.Today))
	values := []string{
		perDay, remaining, strconv.FormatInt(int64(d.Day+1)*86400, 10),
		`"minute";q=` + perMinute + `;w=60, "day";q=` + perDay + `;w=86400`,
		`"minute";r=` + strconv.Itoa(max(0, d.Limits.PerMinute-d.Recent)) + `;t=` + seconds(d.Room) +
			`, "day";r=` + remaining + `;t=` + seconds(d.untilMidnight()),
	}
	for i, name := range rateLimitHeaders {
		h[name] = values[i : i+1 : i+1]
	}
}

// rateLimitHeaders are the names of the headers that SetHeaders sets.
var rateLimitHeaders = [...]string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
