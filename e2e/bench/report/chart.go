package report

import (
	"embed"
	"fmt"
	"math"
	"strings"
	"text/template"
)

// Line is a line of a chart.
type Line struct {
	Name   string
	Points [][2]float64 // x and y, in order of x
	Color  int          // 0 to 3
	Dashed bool
}

// Chart is a line chart with a logarithmic x-axis.
type Chart struct {
	Title  string
	X, Y   string // labels of the axes
	LogY   bool   // logarithmic y-axis; otherwise it starts at 0
	Lines  []Line
	Source string // how and when it was measured
}

// The size of a chart and the edges of its plot, in pixels.
const (
	width, height            = 760, 420
	left, right, top, bottom = 80.0, 560.0, 50.0, 350.0
)

//go:embed *.svg
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.svg"))

// SVG draws the chart. It has no background, and its colours suit a light and a dark page.
func (c Chart) SVG() (string, error) {
	x, y := axis{from: left, to: right, log: true}, axis{from: bottom, to: top, log: c.LogY}
	for _, line := range c.Lines {
		for _, p := range line.Points {
			x.include(p[0])
			y.include(p[1])
		}
	}
	if x.high <= 0 {
		return "", fmt.Errorf("chart %q has no points", c.Title)
	}
	type drawn struct {
		Line
		Polyline string
		Dots     [][2]string
		Legend   int
	}
	var lines []drawn
	for i, line := range c.Lines {
		d := drawn{Line: line, Legend: int(top) + 20 + 24*i}
		for _, p := range line.Points {
			at := [2]string{pixel(x.at(p[0])), pixel(y.at(p[1]))}
			d.Dots = append(d.Dots, at)
			d.Polyline += strings.Join(at[:], ",") + " "
		}
		lines = append(lines, d)
	}
	var out strings.Builder
	err := templates.ExecuteTemplate(&out, "chart.svg", map[string]any{
		"Chart": c, "Width": width, "Height": height, "Left": left, "Right": right, "Top": top, "Bottom": bottom, "Middle": (left + right) / 2,
		"Lines": lines, "XTicks": x.ticks(), "YTicks": y.ticks(),
	})
	return out.String(), err
}

// axis maps values to pixels.
type axis struct {
	from, to  float64 // pixels
	log       bool
	low, high float64 // of the values
}

func (a *axis) include(v float64) {
	if a.high == 0 || v < a.low {
		a.low = v
	}
	a.high = max(a.high, v)
}

// scale returns where a value is between the ends of the axis, 0 to 1.
func (a *axis) scale(v float64) float64 {
	if !a.log {
		return v / (a.high * 1.05)
	}
	low, high := math.Log(a.low/1.1), math.Log(a.high*1.1)
	return (math.Log(v) - low) / (high - low)
}

func (a *axis) at(v float64) float64 { return a.from + (a.to-a.from)*a.scale(v) }

type tick struct{ At, Label string }

// ticks returns ticks at 1, 2 and 5 times powers of ten on a logarithmic axis, and at about five round values on another.
func (a *axis) ticks() (all []tick) {
	add := func(v float64) {
		if at := a.scale(v); at >= 0 && at <= 1 {
			all = append(all, tick{pixel(a.at(v)), shortNumber(v)})
		}
	}
	if a.log {
		for power := math.Pow(10, math.Floor(math.Log10(a.low/1.1))); power <= a.high*1.1; power *= 10 {
			for _, digit := range []float64{1, 2, 5} {
				if digit == 1 || a.high < 1000*a.low {
					add(power * digit)
				}
			}
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high)))
	for a.high/step < 4 {
		step /= 2
	}
	for v := 0.0; v <= a.high*1.05; v += step {
		add(v)
	}
	return all
}

func shortNumber(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.4g", v)
	}
	return number(v)
}

func pixel(v float64) string { return fmt.Sprintf("%.1f", v) }
