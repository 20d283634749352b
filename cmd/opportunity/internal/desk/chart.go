package desk

// Size of a chart in its own units. Charts scale with the page.
const (
	chartWidth  = 700
	chartHeight = 160
)

// bar is a rectangle of a chart.
type bar struct {
	X, Y, Width, Height float64
	Class               string
}

// part is the part of a column that a class of the style sheet colors.
type part struct {
	class string
	n     int
}

// stack draws column i of a chart with so many columns, from below. A column of the height full
// fills the chart.
func stack(i, columns, full int, parts []part) (bars []bar) {
	width, y := chartWidth/float64(max(1, columns)), float64(chartHeight)
	for _, p := range parts {
		height := chartHeight * float64(p.n) / float64(max(1, full))
		y -= height
		if p.n > 0 {
			bars = append(bars, bar{float64(i) * width, y, width * 0.9, height, p.class})
		}
	}
	return bars
}
