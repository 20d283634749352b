package desk

import (
	"fmt"
	"slices"
	"strings"
)

// Size of a chart in its own units. Charts scale with the page.
const (
	chartWidth  = 700
	chartHeight = 160
)

// chart is a chart with a column for each day, and its table.
type chart struct {
	ID      string // of the heading above it
	Label   string // of the table
	Top     string // of the scale
	Legend  []series
	Columns []column
	Sum     int // of all columns
	Most    int // of the highest column
}

// series is a part of each column, or a line across it. Class is its color.
type series struct {
	Class, Label string
	line         bool
}

// column has the counts of a day by series.
type column struct {
	Day    string
	Counts []int
	Sum    int // without lines
	Bars   []bar
}

// bar is a rectangle of a chart.
type bar struct {
	X, Y, Width, Height float64
	Class               string
}

// Title describes a column.
func (c chart) Title(col column) string {
	parts := []string{fmt.Sprintf("%s: %d", col.Day, col.Sum)}
	for i, n := range col.Counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", c.Legend[i].Label, n))
		}
	}
	return strings.Join(parts, ", ")
}

// Dates returns the first and the last day, or the month and day of each of a few.
func (c chart) Dates() (days []string) {
	for _, col := range c.Columns {
		days = append(days, col.Day[min(5, len(col.Day)):])
	}
	if len(days) > 20 {
		days = []string{c.Columns[0].Day, c.Columns[len(days)-1].Day}
	}
	return days
}

// drawn returns the chart with its sums and bars, which stand on each other. In a chart of shares,
// each column has the full height.
func (c chart) drawn(shares bool) chart {
	for i := range c.Columns {
		col := &c.Columns[i]
		for n, count := range col.Counts {
			if c.Most = max(c.Most, count); !c.Legend[n].line {
				col.Sum += count
			}
		}
		c.Sum, c.Most = c.Sum+col.Sum, max(c.Most, col.Sum)
	}
	if c.Top = fmt.Sprint(c.Most); shares {
		c.Top = "100 %"
	}
	width := chartWidth / float64(max(1, len(c.Columns)))
	for i := range c.Columns {
		col, full, y := &c.Columns[i], c.Most, float64(chartHeight)
		if shares {
			full = col.Sum
		}
		for n, count := range col.Counts {
			height := chartHeight * float64(count) / float64(max(1, full))
			b := bar{float64(i) * width, chartHeight - height, width * 0.9, 1, c.Legend[n].Class}
			if !c.Legend[n].line {
				y -= height
				b.Y, b.Height = y, height
			}
			if count > 0 {
				col.Bars = append(col.Bars, b)
			}
		}
	}
	return c
}

// Filled returns the columns that are not empty, for the table.
func (c chart) Filled() []column {
	return slices.DeleteFunc(slices.Clone(c.Columns), func(col column) bool { return col.Sum == 0 })
}
