package chart

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/services/authquota/internal/usage"
)

// Count formats a number such as 12,345.
func Count(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Day formats a day such as 3 November 2026.
func Day(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return t.Format("2 January 2006")
}

func title(bars []usage.Bar) string {
	if len(bars) == 0 {
		return "Requests by day"
	}
	return fmt.Sprintf("Requests by day, %s to %s", Day(bars[0].Day), Day(bars[len(bars)-1].Day))
}

// Describe returns a text alternative for the bars.
func Describe(bars []usage.Bar) string {
	sum, without, most := usage.Sum(bars), 0, usage.Bar{}
	for _, bar := range bars {
		if bar.Total() == 0 {
			without++
		}
		if bar.Total() > most.Total() {
			most = bar
		}
	}
	if most.Day == "" {
		return fmt.Sprintf("No requests in %s.", plural(len(bars), "day"))
	}
	text := fmt.Sprintf("%s in %s: %s. The most on one day: %s, on %s.",
		plural(sum.Total(), "request"), plural(len(bars), "day"), figures(sum), Count(most.Total()), Day(most.Day))
	if without > 0 {
		text += fmt.Sprintf(" None on %s.", plural(without, "day"))
	}
	return text
}

func label(bar usage.Bar) string {
	if bar.Total() == 0 {
		return Day(bar.Day) + ": no requests"
	}
	return Day(bar.Day) + ": " + figures(bar.Figures)
}

// figures lists the groups that have requests.
func figures(f usage.Figures) string {
	var parts []string
	for g, calls := range f {
		if calls > 0 {
			parts = append(parts, Count(calls)+" "+strings.ToLower(usage.Names[g]))
		}
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(n) + " " + what + "s"
}
