package keyusage_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keyusage"
)

var update = flag.Bool("update", false, "rewrite the drawings in testdata")

func TestDrawings(t *testing.T) {
	for name, counts := range map[string][]keyusage.DayCount{
		"empty": nil,
		"mixed": {
			{Day: "2026-11-20", Outcome: api.CallServed, Calls: 1200}, {Day: "2026-11-20", Outcome: api.CallNotFound, Calls: 30},
			{Day: "2026-11-19", Outcome: api.CallServed, Calls: 2410}, {Day: "2026-11-19", Outcome: api.CallDailyLimitReached, Calls: 500},
			{Day: "2026-11-19", Outcome: api.CallBadRequest, Calls: 7}, {Day: "2026-10-31", Outcome: api.CallFailed, Calls: 90},
			{Day: "2026-11-12", Outcome: api.CallServed, Calls: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(keyusage.Chart(keyusage.Bars(keyusage.Last(noon, 30), counts))) + "\n"
			file := "testdata/" + name + ".svg"
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// For any counts the SVG is well-formed, the height of each bar matches its requests, and nothing
// is drawn outside.
func TestBarsAreAsHighAsTheirCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := keyusage.Last(noon, rapid.IntRange(1, 120).Draw(t, "days"))
		bars := keyusage.Bars(r, nil)
		most := 0
		for i := range bars {
			for g := range bars[i].Figures {
				bars[i].Figures[g] = rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 1_000_000)).Draw(t, "calls")
			}
			most = max(most, bars[i].Total())
		}
		step := keyusage.AxisStep(most)
		highest := max(1, (most+step-1)/step) * step
		heights := rects(t, string(keyusage.Chart(bars)))
		for i, bar := range bars {
			want := 200 * float64(bar.Total()) / float64(highest)
			if got := heights[i]; math.Abs(got-want) > 0.05 {
				t.Fatalf("%v is %f high, not %f", bar, got, want)
			}
		}
	})
}

// rects returns the heights of the bars.
func rects(t *rapid.T, drawing string) []float64 {
	var heights []float64
	for in := xml.NewDecoder(strings.NewReader(drawing)); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return heights
		}
		if err != nil {
			t.Fatalf("%v in %s", err, drawing)
		}
		element, ok := token.(xml.StartElement)
		if !ok || element.Name.Local != "rect" {
			continue
		}
		at := map[string]string{}
		for _, a := range element.Attr {
			at[a.Name.Local] = a.Value
		}
		x, width := figure(t, strings.TrimSuffix(at["x"], "%")), figure(t, strings.TrimSuffix(at["width"], "%"))
		y, height := figure(t, at["y"]), figure(t, at["height"])
		if x < 0 || x+width > 93.01 || y < 7.99 || y+height > 208.02 {
			t.Fatalf("outside: %v", at)
		}
		if at["class"] == "day" {
			heights = append(heights, 0)
		} else {
			heights[len(heights)-1] += height
		}
	}
}

func figure(t *rapid.T, s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatalf("%q", s)
	}
	return f
}

func TestSteps(t *testing.T) {
	for most, want := range map[int]int{0: 1, 1: 1, 5: 1, 6: 2, 10: 2, 11: 5, 25: 5, 26: 10, 100: 20, 1230: 500, 9_999: 2000, 50_000: 10_000} {
		require.Equal(t, want, keyusage.AxisStep(most), most)
	}
}

func TestDescribe(t *testing.T) {
	require.Equal(t, "No requests in 90 days.", keyusage.DescribeBars(keyusage.Bars(keyusage.Last(noon, 90), nil)))
	require.Equal(t, "1 request in 1 day: 1 served. The most on one day: 1, on 20 November 2026.",
		keyusage.DescribeBars(keyusage.Bars(keyusage.Last(noon, 1), []keyusage.DayCount{{Day: "2026-11-20", Outcome: api.CallServed, Calls: 1}})))
	require.Equal(t, "12,350 requests in 7 days: 12,345 served, 5 rejected. The most on one day: 12,345, on 18 November 2026. "+
		"None on 5 days.",
		keyusage.DescribeBars(keyusage.Bars(keyusage.Last(noon, 7), []keyusage.DayCount{
			{Day: "2026-11-18", Outcome: api.CallServed, Calls: 12_345}, {Day: "2026-11-20", Outcome: api.CallMinuteLimitReached, Calls: 5},
		})))
}
