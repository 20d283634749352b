package report

import (
	"fmt"
	"strings"
)

// Bar is a sum of parts.
type Bar struct {
	Name  string
	Parts []float64 // at least 0
}

// Bars is a chart of horizontal bars, which are stacked from parts.
type Bars struct {
	Title, Unit string
	Parts       []string // their names, up to six
	Bars        []Bar
	Source      string // how and when it was measured
}

// SVG draws the chart like Chart.SVG.
func (b Bars) SVG() (string, error) {
	const start, end, row = 250.0, 660.0, 36
	var most float64
	sums := make([]float64, len(b.Bars))
	for i, bar := range b.Bars {
		for _, v := range bar.Parts {
			sums[i] += v
		}
		most = max(most, sums[i])
	}
	if most == 0 {
		return "", fmt.Errorf("chart %q has no values", b.Title)
	}
	amount := func(v float64) string { return number(v) + " " + b.Unit }
	type part struct {
		Name, Value, X, Width string
		Color                 int
	}
	type drawn struct {
		Name, Total, End string
		Y                int
		Parts            []part
	}
	var legend []part
	for i, name := range b.Parts {
		legend = append(legend, part{Name: name, X: pixel(16 + 110*float64(i)), Color: i})
	}
	bars := make([]drawn, len(b.Bars))
	for i, bar := range b.Bars {
		d, at := drawn{Name: bar.Name, Total: amount(sums[i]), Y: 76 + row*i}, start
		for j, v := range bar.Parts {
			wide := v / most * (end - start)
			d.Parts = append(d.Parts, part{b.Parts[j], amount(v), pixel(at), pixel(wide), j})
			at += wide
		}
		d.End = pixel(at)
		bars[i] = d
	}
	bottom := 92 + row*len(bars)
	var out strings.Builder
	err := templates.ExecuteTemplate(&out, "bars.svg", map[string]any{
		"Title": b.Title, "Source": b.Source, "Legend": legend, "Bars": bars, "Width": width, "Height": bottom + 16, "Left": start, "Bottom": bottom,
	})
	return out.String(), err
}
