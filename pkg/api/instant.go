package api

import (
	"regexp"
	"strconv"
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
