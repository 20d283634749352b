package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The forms of ISO 8601 that name one day or one instant, extended (2026-11-20T09:30:00Z) and basic
// (20261120T093000Z). Any offset can follow either form, because strftime's %z writes the basic
// one.
var instants = []*regexp.Regexp{
	regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d))?)?` + fractionAndOffset),
	regexp.MustCompile(`^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(?:(\d\d)(\d\d)?)?` + fractionAndOffset),
}

const fractionAndOffset = `(?:[.,](\d+))?(?:Z|([+-]\d\d)(?::?(\d\d))?))?$`

// ParseInstant returns the time in UTC of an ISO 8601 date, which means 00:00:00 UTC, or of a
// timestamp with an offset. The seconds and the minutes can be left out, and the last part can have
// a fraction. It returns an error for week dates, ordinal dates and leap seconds.
func ParseInstant(text string) (time.Time, error) {
	for _, form := range instants {
		if parts := form.FindStringSubmatch(text); parts != nil {
			if at, ok := instant(parts); ok {
				return at, nil
			}
		}
	}
	return time.Time{}, errNoDate(text)
}

// instant converts the submatches of instants. It returns false if one of them is out of range.
func instant(parts []string) (time.Time, bool) {
	var n [10]int
	for i, part := range parts[1:] {
		if i != 6 {
			n[i+1], _ = strconv.Atoi(part) // at most four digits
		}
	}
	year, month, day, hour, minute, second, offsetHour, offsetMinute := n[1], n[2], n[3], n[4], n[5], n[6], n[8], n[9]
	rest := fraction(parts[7], parts[5], parts[6])
	midnight := hour == 24 && minute+second == 0 && rest == 0 // the end of the day
	at := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if at.Day() != day || at.Month() != time.Month(month) || hour > 23 && !midnight || minute > 59 || second > 59 ||
		max(offsetHour, -offsetHour) > 23 || offsetMinute > 59 {
		return time.Time{}, false
	}
	if parts[8] != "" && parts[8][0] == '-' {
		offsetMinute = -offsetMinute
	}
	clock := time.Duration(hour-offsetHour)*time.Hour + time.Duration(minute-offsetMinute)*time.Minute +
		time.Duration(second)*time.Second
	return at.Add(clock + rest), true
}

// fraction returns the duration of the digits after a decimal sign: of a second, a minute or an
// hour, the smallest that the text has. It ignores what is shorter than a nanosecond of a second.
func fraction(digits, minute, second string) time.Duration {
	n, _ := strconv.ParseInt((digits + "000000000")[:9], 10, 64)
	unit := time.Second
	switch {
	case minute == "":
		unit = time.Hour
	case second == "":
		unit = time.Minute
	}
	return time.Duration(n) * (unit / time.Second)
}

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

// DurationHelp completes an error about a duration: what to write instead.
const DurationHelp = "use a duration such as 30d, 12h or 90m"

var errDuration = errors.New(DurationHelp)

var daysOrWeeks = regexp.MustCompile(`[0-9.]+[dw]`)

// ParseDuration reads a duration as people write it in flags, settings and requests: Go's form with
// days and weeks, such as 30d, 1d12h, 2w or 90m. Days have 24 hours. Negative durations are errors.
func ParseDuration(s string) (time.Duration, error) {
	hours := daysOrWeeks.ReplaceAllStringFunc(s, func(part string) string {
		last := len(part) - 1
		n, err := strconv.ParseFloat(part[:last], 64)
		if err != nil {
			return part // no duration of Go
		}
		return strconv.FormatFloat(n*map[byte]float64{'d': 24, 'w': 7 * 24}[part[last]], 'f', -1, 64) + "h"
	})
	d, err := time.ParseDuration(hours)
	if err != nil || strings.ContainsAny(s, "+-") {
		return 0, errDuration
	}
	return d, nil
}
