package api

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

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
