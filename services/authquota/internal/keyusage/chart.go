package keyusage

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Measures of a chart: horizontal in percent of the page's width, vertical in pixels.
const (
	barsWidth = 93.0  // where the bars end and the axis labels begin
	gap       = 0.22  // share of a bar's slot left empty
	top       = 8.0   // of the highest line
	bottom    = 208.0 // of the baseline
	height    = 236
)

// classes are the CSS classes of the groups.
var classes = [Groups]string{"served", "not-found", "rejected", "failed"}

// Class returns the CSS class of the group.
func (g Group) Class() string { return classes[g] }

// Chart renders usage as inline SVG: one stacked bar per day, with a text alternative. The page
// must also show the figures as a table.
//
// The chart scales to the width of the page. Horizontal measures are percentages, so bars shrink
// with the page but text does not. Colors come from the page's style sheet, by the classes of the
// groups.
func Chart(bars []Bar) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" role="img" aria-labelledby="chart-title chart-desc" width="100%%" height="%d">`,
		height)
	fmt.Fprintf(&b, "\n<title id=\"chart-title\">%s</title>\n<desc id=\"chart-desc\">%s</desc>\n", title(bars),
		DescribeBars(bars))
	most := 0
	for _, bar := range bars {
		most = max(most, bar.Total())
	}
	step := AxisStep(most)
	highest := max(1, (most+step-1)/step) * step
	y := func(calls int) float64 { return bottom - (bottom-top)*float64(calls)/float64(highest) }
	b.WriteString(`<g class="axis">`)
	for calls := 0; calls <= highest; calls += step {
		fmt.Fprintf(&b, `<line x1="0" x2="%s%%" y1="%s" y2="%[2]s"/><text x="100%%" y="%s">%s</text>`,
			number(barsWidth), number(y(calls)), number(y(calls)+4), short(calls))
	}
	b.WriteString("</g>\n")
	place := barsWidth / float64(max(1, len(bars)))
	for i, bar := range bars {
		drawBar(&b, bar, place*(float64(i)+gap/2), place*(1-gap), y)
	}
	b.WriteString(`<g class="days">`)
	for i, bar := range bars {
		if day, err := time.Parse(time.DateOnly, bar.Day); err == nil && (day.Day() == 1 || day.Day() == 15) {
			at := place * (float64(i) + 0.5)
			fmt.Fprintf(&b, `<line x1="%s%%" x2="%[1]s%%" y1="%s" y2="%s"/>`, number(at), number(bottom), number(bottom+5))
			if at > 4 && at < barsWidth-4 { // a label at the edge would be cut off
				fmt.Fprintf(&b, `<text x="%s%%" y="%s">%s</text>`, number(at), number(bottom+21), day.Format("2 Jan"))
			}
		}
	}
	b.WriteString("</g>\n</svg>")
	return template.HTML(b.String()) //nolint:gosec // figures, days and fixed text only
}

// drawBar draws the stacked groups of one day, served requests at the bottom, under a transparent
// area whose tooltip shows the figures.
func drawBar(b *strings.Builder, bar Bar, x, width float64, y func(int) float64) {
	fmt.Fprintf(b, `<g><title>%s</title><rect class="day" x="%s%%" width="%s%%" y="%s" height="%s"/>`,
		label(bar), number(x), number(width), number(top), number(bottom-top))
	below := 0
	for g, calls := range bar.Figures {
		if calls > 0 {
			fmt.Fprintf(b, `<rect class="%s" x="%s%%" width="%s%%" y="%s" height="%s"/>`,
				classes[g], number(x), number(width), number(y(below+calls)), number(y(below)-y(below+calls)))
			below += calls
		}
	}
	b.WriteString("</g>\n")
}

// AxisStep returns the distance between the lines of an axis up to most: 1, 2 or 5 times a power of
// ten, for at most five lines above the baseline.
func AxisStep(most int) int {
	for power := 1; ; power *= 10 {
		for _, step := range []int{power, 2 * power, 5 * power} {
			if step*5 >= most {
				return step
			}
		}
	}
}

// short formats an axis label, such as 500, 1.5k or 20k.
func short(n int) string {
	for _, unit := range []struct {
		size int
		name string
	}{{1_000_000_000, "G"}, {1_000_000, "M"}, {1000, "k"}} {
		if n >= unit.size {
			return strconv.FormatFloat(float64(n)/float64(unit.size), 'f', -1, 64) + unit.name
		}
	}
	return strconv.Itoa(n)
}

func number(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}

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
		plural(sum.Total(), "request"), plural(len(bars), "day"), figures(sum), humanize.Comma(int64(most.Total())),
		formatDay(most.Day))
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
