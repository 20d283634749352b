package api

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// CheckDate is the date ("2026-11-20") or the time (RFC 3339 with an offset) of a check. It keeps
// its recorded form: a date alone is less precise than midnight on that date.
type CheckDate string

// timestamp matches RFC 3339 strictly. time.Parse also accepts "T9:00:00Z", a decimal comma, and
// offsets of 24 hours.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseTimestamp returns the time in UTC of an RFC 3339 timestamp. Its error follows the name of
// the value.
func ParseTimestamp(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !timestamp.MatchString(text) {
		return time.Time{}, fmt.Errorf("must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z; %q is none",
			short(text))
	}
	return t.UTC(), nil
}

// Timestamp is a time in the JSON of a request, decoded by ParseTimestamp.
type Timestamp struct{ time.Time }

// UnmarshalJSON decodes a timestamp in quotation marks.
func (t *Timestamp) UnmarshalJSON(text []byte) error {
	var s string
	err := json.Unmarshal(text, &s)
	if err == nil {
		t.Time, err = ParseTimestamp(s)
	}
	return err
}

// Time returns the time in UTC: that of a timestamp, or 00:00:00 UTC of a date.
func (d CheckDate) Time() (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, string(d)); err == nil {
		return t, nil
	}
	t, err := ParseTimestamp(string(d))
	if err != nil {
		return time.Time{}, errNoDate(short(string(d)))
	}
	return t, nil
}

func errNoDate(text string) error {
	return fmt.Errorf("%q is neither a date (2026-11-20) nor a timestamp with an offset (2026-11-20T09:00:00Z)", text)
}
