package keyusage

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

func formatDay(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return t.Format("2 January 2006")
}

func title(bars []Bar) string {
	if len(bars) == 0 {
		return "Requests by day"
	}
	return fmt.Sprintf("Requests by day, %s to %s", formatDay(bars[0].Day), formatDay(bars[len(bars)-1].Day))
}

// DescribeBars returns a text alternative for the bars.
func DescribeBars(bars []Bar) string {
	sum, without, most := Sum(bars), 0, Bar{}
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
		plural(sum.Total(), "request"), plural(len(bars), "day"), figures(sum), humanize.Comma(int64(most.Total())), formatDay(most.Day))
	if without > 0 {
		text += fmt.Sprintf(" None on %s.", plural(without, "day"))
	}
	return text
}

func label(bar Bar) string {
	if bar.Total() == 0 {
		return formatDay(bar.Day) + ": no requests"
	}
	return formatDay(bar.Day) + ": " + figures(bar.Figures)
}

// figures lists the groups that have requests.
func figures(f Figures) string {
	var parts []string
	for g, calls := range f {
		if calls > 0 {
			parts = append(parts, humanize.Comma(int64(calls))+" "+strings.ToLower(Names[g]))
		}
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return humanize.Comma(int64(n)) + " " + what + "s"
}
