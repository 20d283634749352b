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
		for in := xml.NewDecoder(strings.NewReader(svg)); ; {
			_, err := in.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
	}
	_, err := report.Chart{Title: "empty"}.SVG()
	require.ErrorContains(t, err, "no points")
}
