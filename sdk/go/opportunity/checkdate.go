package opportunity

import "time"

// Time returns the time in UTC: that of a timestamp, or 00:00:00 UTC of a date.
func (d CheckDate) Time() (time.Time, error) {
	if day, err := time.Parse(time.DateOnly, string(d)); err == nil {
		return day, nil
	}
	t, err := time.Parse(time.RFC3339, string(d))
	return t.UTC(), err
}

// DateOf returns a time as an Instant, for Filter.CheckedAfter.
func DateOf(t time.Time) Instant { return Instant(t.UTC().Format(time.RFC3339Nano)) }
