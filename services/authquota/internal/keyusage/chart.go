package keyusage

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Measures of a chart, as in chart.svg: horizontal in percent of the page's width, vertical in
// pixels.
const (
	barsWidth = 93.0  // where the bars end and the axis labels begin
	gap       = 0.22  // share of a bar's slot left empty
	top       = 8.0   // of the highest line
	bottom    = 208.0 // of the baseline
)

// classes are the CSS classes of the groups.
var classes = [Groups]string{"served", "not-found", "rejected", "failed"}

// Class returns the CSS class of the group.
func (g Group) Class() string { return classes[g] }

//go:embed chart.svg
var drawing string

var chart = template.Must(template.New("chart").Parse(drawing))

// measure is a position or a length.
type measure float64

func (m measure) String() string { return humanize.Ftoa(math.Round(float64(m)*100) / 100) }

type (
	drawnChart struct {
		Title, Description string
		Width              measure // of a bar
		Lines, Days        []mark
		Bars               []drawnBar
	}
	mark struct {
		At    measure
		Label string
	}
	drawnBar struct {
		Label string
		X     measure
		Parts []part // from the bottom
	}
	part struct {
		Class     string
		Y, Height measure
	}
)

// Chart renders usage as inline SVG: one stacked bar per day, with a text alternative. There must
// be at least one day. The page must also show the figures as a table.
//
// The chart scales to the width of the page. Horizontal measures are percentages, so bars shrink
// with the page but text does not. Colors come from the page's style sheet, by the classes of the
// groups.
func Chart(bars []Bar) (template.HTML, error) {
	most := 0
	for _, bar := range bars {
		most = max(most, bar.Total())
	}
	step := AxisStep(most)
	highest := max(1, (most+step-1)/step) * step
	y := func(calls int) measure { return measure(bottom - (bottom-top)*float64(calls)/float64(highest)) }
	slot := barsWidth / float64(len(bars))
	shown := drawnChart{Title: title(bars), Description: DescribeBars(bars), Width: measure(slot * (1 - gap))}
	for calls := 0; calls <= highest; calls += step {
		shown.Lines = append(shown.Lines, mark{y(calls), strings.ReplaceAll(humanize.SI(float64(calls), ""), " ", "")})
	}
	for i, bar := range bars {
		drawn, below := drawnBar{Label: label(bar), X: measure(slot * (float64(i) + gap/2))}, 0
		for g, calls := range bar.Figures {
			if calls > 0 {
				above := below + calls
				drawn.Parts = append(drawn.Parts, part{classes[g], y(above), y(below) - y(above)})
				below = above
			}
		}
		shown.Bars = append(shown.Bars, drawn)
		if day, err := time.Parse(time.DateOnly, bar.Day); err == nil && (day.Day() == 1 || day.Day() == 15) {
			at := mark{At: measure(slot * (float64(i) + 0.5))}
			if at.At > 4 && at.At < barsWidth-4 { // a label at the edge would be cut off
				at.Label = day.Format("2 Jan")
			}
			shown.Days = append(shown.Days, at)
		}
	}
	var b strings.Builder
	err := chart.Execute(&b, shown)
	return template.HTML(b.String()), err //nolint:gosec // made by a template
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

func formatDay(day string) string {
	t, _ := time.Parse(time.DateOnly, day) // made by Last
	return t.Format("2 January 2006")
}

func title(bars []Bar) string {
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
