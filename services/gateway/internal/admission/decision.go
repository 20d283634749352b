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

// Verdict is what became of a call.
type Verdict string

const (
	Admitted Verdict = "admitted" // and charged to minute, day and service
	Refused  Verdict = "refused"  // by at least one limit; nothing was charged
	Outdated Verdict = "epoch"    // the principal is out of date; nothing was charged

	otherDay Verdict = "day"  // these three never leave this package: by the clock of Redis it is another day
	unseeded Verdict = "seed" // the day has no counters yet
	late     Verdict = "late" // Redis came to the call when nobody should wait for it any more
)

// Day is a UTC day, counted from 1970-01-01.
type Day int64

func dayOf(t time.Time) Day { return Day(t.Unix() / 86400) }

// Start is the midnight that the day begins with.
func (d Day) Start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String is the date of the day, as 2026-11-20.
func (d Day) String() string { return counter.DayOf(d.Start()) }

func (d Day) key() string { return counter.Day(d.String()) }

// Decision is the answer to one call, with the figures that the caller is told. An Outdated one has none.
type Decision struct {
	Verdict Verdict
	Limits  api.Limits
	Clock   time.Time     // the time in Redis, shared by all replicas
	Day     Day           // the day that the call was, or would have been, charged to
	Today   int           // calls of the account on that day, this one included where it was admitted
	Recent  int           // calls of the account in the minute window, likewise
	Room    time.Duration // until the window has more room than now

	ServiceFull, DayFull, MinuteFull bool // the limits that refuse
}

// midnight is how long the day still lasts.
func (d Decision) midnight() time.Duration { return (d.Day + 1).Start().Sub(d.Clock) }

// RetryAfter is how long to wait until the same call would be admitted if nobody else spends: the longest of the violated
// limits.
func (d Decision) RetryAfter() time.Duration {
	var wait time.Duration
	if d.MinuteFull {
		wait = d.Room
	}
	if d.DayFull || d.ServiceFull {
		wait = max(wait, d.midnight())
	}
	return wait
}

// Limit is the limit that refuses. Where several do it is the one that the caller can do least about: the shared capacity, then the
// day, then the minute.
func (d Decision) Limit() problem.Code {
	switch {
	case d.ServiceFull:
		return problem.ServiceCapacityReached
	case d.DayFull:
		return problem.DailyLimitReached
	}
	return problem.MinuteLimitReached
}

// Problem returns the rejection: which limit was reached, and how long to wait.
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

// Describe tells the caller where its account stands: the daily figures in X-RateLimit-*, and day and minute in the fields of
// the IETF draft (draft-ietf-httpapi-ratelimit-headers). Times are whole seconds, rounded up.
func (d Decision) Describe(h http.Header) {
	perDay, perMinute := strconv.Itoa(d.Limits.PerDay), strconv.Itoa(d.Limits.PerMinute)
	left := strconv.Itoa(max(0, d.Limits.PerDay-d.Today))
	h["X-RateLimit-Limit"] = []string{perDay}
	h["X-RateLimit-Remaining"] = []string{left}
	h["X-RateLimit-Reset"] = []string{strconv.FormatInt((d.Day + 1).Start().Unix(), 10)}
	h["RateLimit-Policy"] = []string{`"minute";q=` + perMinute + `;w=60, "day";q=` + perDay + `;w=86400`}
	h["RateLimit"] = []string{`"minute";r=` + strconv.Itoa(max(0, d.Limits.PerMinute-d.Recent)) + `;t=` + seconds(d.Room) +
		`, "day";r=` + left + `;t=` + seconds(d.midnight())}
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
