package api

import (
	"fmt"
	"time"
)

// CheckDate is when something was checked: a calendar date ("2026-11-20") or an RFC 3339 timestamp with an offset. It keeps the
// form in which it was recorded, because "checked on that day" says less than "checked at midnight".
type CheckDate string

// ParseCheckDate refuses anything but the two forms.
func ParseCheckDate(s string) (CheckDate, error) {
	d := CheckDate(s)
	if _, err := d.Time(); err != nil {
		return "", err
	}
	return d, nil
}

// Time is the instant of a timestamp, or 00:00:00 UTC of a date. The result is in UTC.
func (d CheckDate) Time() (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, string(d)); err == nil {
		return t, nil
	}
	var t time.Time // UnmarshalText holds to RFC 3339; time.Parse would let "T9:00:00Z" and a decimal comma pass
	if err := t.UnmarshalText([]byte(d)); err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a date (2026-11-20) nor a timestamp with an offset (2026-11-20T09:00:00Z)", string(d))
	}
	return t.UTC(), nil
}
