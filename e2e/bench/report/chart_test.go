package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/bench/report"
)

func TestChartDrawsEveryLine(t *testing.T) {
	for _, logY := range []bool{false, true} {
		svg, err := report.Chart{
			Title: "Lists & records", X: "records", Y: "calls/s", LogY: logY, Lines: []report.Line{
				{Name: "here", Points: [][2]float64{{1000, 5000}, {100_000, 4000}, {1_000_000, 5000}}},
				{Name: "pgx", Color: 1, Dashed: true, Points: [][2]float64{{1000, 400}, {100_000, 20}}},
			},
		}.SVG()
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(svg, "<polyline"))
		require.Equal(t, 5, strings.Count(svg, `<circle r="3"`))
		require.Contains(t, svg, ">1,000,000<", "a tick")
		require.Contains(t, svg, ">pgx<")
		require.Equal(t, 2, strings.Count(svg, `class="line dashed"`), "the line and its legend")
		requireXML(t, svg)
	}
	_, err := report.Chart{Title: "empty"}.SVG()
	require.ErrorContains(t, err, "no points")
}

func TestBarsStackTheirParts(t *testing.T) {
	svg, err := report.Bars{
		Title: "CPU & calls", Unit: "µs", Parts: []string{"gateway", "catalog"},
		Bars: []report.Bar{{Name: "a record", Parts: []float64{1000, 500}}, {Name: "a list", Parts: []float64{300, 0}}},
	}.SVG()
	require.NoError(t, err)
	requireXML(t, svg)
	require.Contains(t, svg, `x="250.0" y="76" width="273.3" height="24"><title>gateway: 1,000 µs</title>`)
	require.Contains(t, svg, `x="523.3" y="76" width="136.7" height="24"><title>catalog: 500 µs</title>`, "after the first part")
	require.Contains(t, svg, ">1,500 µs<", "the sum")
	require.Contains(t, svg, ">300 µs<")
	_, err = report.Bars{Title: "empty"}.SVG()
	require.ErrorContains(t, err, "no values")
}

func requireXML(t *testing.T, text string) {
	t.Helper()
	for in := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := in.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}
