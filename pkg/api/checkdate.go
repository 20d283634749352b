package api

import (
	"fmt"
	"regexp"
	"time"
)

// CheckDate is the date ("2026-11-20") or the time (RFC 3339 with an offset) of a check. It keeps its recorded form: a date alone is
// less precise than midnight on that date.
type CheckDate string

// timestamp matches RFC 3339 strictly. time.Parse also accepts "T9:00:00Z", a decimal comma, and offsets of 24 hours.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// Time returns the time in UTC: that of a timestamp, or 00:00:00 UTC of a date.
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
