package api

import (
	"fmt"
	"regexp"
	"time"
)

// CheckDate is when something was checked: a calendar date ("2026-11-20") or an RFC 3339 timestamp with an offset. It keeps the
// form in which it was recorded, because "checked on that day" says less than "checked at midnight".
type CheckDate string

// timestamp is the form that RFC 3339 prescribes; time.Parse also takes "T9:00:00Z", a
// decimal comma, and offsets of 24 hours.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// Time is the instant of a timestamp, or 00:00:00 UTC of a date. The result is in UTC.
func (d CheckDate) Time() (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, string(d)); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, string(d))
	if err != nil || !timestamp.MatchString(string(d)) {
		return time.Time{}, fmt.Errorf("%q is neither a date (2026-11-20) nor a timestamp with an offset (2026-11-20T09:00:00Z)", string(d))
	}
	return t.UTC(), nil
}
