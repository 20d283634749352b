package api

import (
	"errors"
	"strconv"
	"time"
)

// DurationHelp completes an error about a duration: what to write instead.
const DurationHelp = "use a duration such as 30d, 12h or 90m"

var errDuration = errors.New(DurationHelp)

// ParseDuration reads a duration as people write it in flags, settings and requests: Go's form with
// days and weeks, such as 30d, 1d12h, 2w or 90m. Days have 24 hours. Negative durations are errors.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	var sum time.Duration
	for s != "" {
		end := 0
		for end < len(s) && (s[end] == '.' || s[end] >= '0' && s[end] <= '9') {
			end++
		}
		number, rest := s[:end], s[end:]
		end = 0
		for end < len(rest) && rest[end] != '.' && (rest[end] < '0' || rest[end] > '9') {
			end++
		}
		unit := rest[:end]
		s = rest[end:]
		part, err := time.ParseDuration(number + unit)
		if days := map[string]float64{"d": 1, "w": 7}[unit]; days > 0 {
			var n float64
			n, err = strconv.ParseFloat(number, 64)
			if n *= days * float64(24*time.Hour); n >= 1<<63 {
				return 0, errDuration
			}
			part = time.Duration(n)
		}
		if err != nil || number == "" || unit == "" || sum+part < sum {
			return 0, errDuration
		}
		sum += part
		if s == "" {
			return sum, nil
		}
	}
	return 0, errDuration
}
