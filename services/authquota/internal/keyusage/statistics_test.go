package keyusage_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// The documentation states the days of the chart and of the file.
func TestDocumentationHasTheDays(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/consumers/usage.md")
	require.NoError(t, err)
	fewest := len(keyusage.Since(make([]keyusage.Bar, keyusage.ChartDays)))
	require.Contains(t, string(text),
		fmt.Sprintf("at least for the last %d and at most for the last %d", fewest, keyusage.ChartDays))
	require.Contains(t, string(text), fmt.Sprintf("%d days, today included", keyusage.RetentionDays))
}

// For any counts there is one bar for each day of the range, in order, and nothing is lost or
// counted twice.
func TestBarsAddUpToTotals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).
			Add(time.Duration(rapid.Int64Range(0, 3*365*24*3600).Draw(t, "now")) * time.Second)
		r := keyusage.Last(now, rapid.IntRange(1, 400).Draw(t, "days"))
		counts := rapid.SliceOf(rapid.Custom(func(t *rapid.T) keyusage.DayCount {
			return keyusage.DayCount{
				Day:     counter.DayOf(now.AddDate(0, 0, rapid.IntRange(-410, 10).Draw(t, "day"))),
				Outcome: rapid.SampledFrom(api.CallOutcomes).Draw(t, "outcome"), Calls: rapid.IntRange(0, 1000).Draw(t, "calls"),
			}
		})).Draw(t, "counts")

		bars := keyusage.Bars(r, counts)
		if len(bars) != r.Days || bars[0].Day != r.From || bars[len(bars)-1].Day != r.To || r.To != counter.DayOf(now) {
			t.Fatalf("%d bars for %v", len(bars), r)
		}
		for i := 1; i < len(bars); i++ {
			a, _ := time.Parse(time.DateOnly, bars[i-1].Day)
			if counter.DayOf(a.AddDate(0, 0, 1)) != bars[i].Day {
				t.Fatalf("%s follows %s", bars[i].Day, bars[i-1].Day)
			}
		}
		var want keyusage.Figures
		for _, c := range counts {
			if r.Includes(c.Day) {
				want[keyusage.GroupOf(c.Outcome)] += c.Calls
			}
		}
		if got := keyusage.Sum(bars); got != want {
			t.Fatalf("want %v, bars come to %v", want, got)
		}
		outcomes := 0
		for _, o := range keyusage.ByOutcome(r, counts) {
			outcomes += o.Calls
		}
		if outcomes != want.Total() {
			t.Fatalf("want %d, outcomes come to %d", want.Total(), outcomes)
		}
	})
}

func TestDaysAreUTC(t *testing.T) {
	for _, c := range []struct {
		at       string
		days     int
		from, to string
	}{
		{"2026-11-20T10:00:00Z", 1, "2026-11-20", "2026-11-20"},
		{"2026-11-20T10:00:00Z", 7, "2026-11-14", "2026-11-20"},
		{"2026-11-20T10:00:00Z", 90, "2026-08-23", "2026-11-20"},
		{"2026-03-08T02:30:00-05:00", 2, "2026-03-07", "2026-03-08"}, // a day of 23 hours in New York
		{"2026-11-01T23:30:00-05:00", 3, "2026-10-31", "2026-11-02"}, // and one of 25
		{"2028-03-01T00:00:00Z", 2, "2028-02-29", "2028-03-01"},
	} {
		now, err := time.Parse(time.RFC3339, c.at)
		require.NoError(t, err)
		require.Equal(t, keyusage.Range{From: c.from, To: c.to, Days: c.days}, keyusage.Last(now, c.days), c.at)
	}
}

func TestParseDays(t *testing.T) {
	for in, want := range map[string]int{"1": 1, "7": 7, "30": 30, "90": 90, "": 30, "8": 30, "-7": 30, "1e1": 30,
		"400": 30} {
		require.Equal(t, want, keyusage.ParseDays(in, 30), in)
	}
}

// Every outcome has an explanation; rejected ones use the text of the error code that the responses
// link to.
func TestEveryOutcomeIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range api.CallOutcomes {
		e := keyusage.Explain(o)
		require.NotEmpty(t, e.Name, o)
		require.NotEmpty(t, e.Meaning, o)
		require.False(t, seen[e.Name], "two outcomes are called %s", e.Name)
		seen[e.Name] = true
		if e.Group != keyusage.Served {
			require.NotEmpty(t, e.Remedy, o)
			require.Contains(t, codes(), e.Code, o)
		}
		require.Equal(t, o == api.CallServed || o == api.CallNotFound, e.Charged, o)
	}
}

func codes() []problem.Code {
	var list []problem.Code
	for _, e := range problem.Table {
		list = append(list, e.Code)
	}
	return list
}

var update = flag.Bool("update", false, "rewrite the drawings in testdata")

func TestDrawings(t *testing.T) {
	for name, counts := range map[string][]keyusage.DayCount{
		"empty": nil,
		"mixed": {
			{Day: "2026-11-20", Outcome: api.CallServed, Calls: 1200}, {Day: "2026-11-20", Outcome: api.CallNotFound, Calls: 30},
			{Day: "2026-11-19", Outcome: api.CallServed, Calls: 2410},
			{Day: "2026-11-19", Outcome: api.CallDailyLimitReached, Calls: 500},
			{Day: "2026-11-19", Outcome: api.CallBadRequest, Calls: 7}, {Day: "2026-10-31", Outcome: api.CallFailed, Calls: 90},
			{Day: "2026-11-12", Outcome: api.CallServed, Calls: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			drawn, err := keyusage.Chart(keyusage.Bars(keyusage.Last(noon, 30), counts))
			require.NoError(t, err)
			got := string(drawn)
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
		drawn, err := keyusage.Chart(bars)
		require.NoError(t, err)
		heights := rects(t, string(drawn))
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
	for most, want := range map[int]int{0: 1, 1: 1, 5: 1, 6: 2, 10: 2, 11: 5, 25: 5, 26: 10, 100: 20, 1230: 500,
		9_999: 2000, 50_000: 10_000} {
		require.Equal(t, want, keyusage.AxisStep(most), most)
	}
}

func TestDescribe(t *testing.T) {
	require.Equal(t, "No requests in 90 days.", keyusage.DescribeBars(keyusage.Bars(keyusage.Last(noon, 90), nil)))
	require.Equal(t, "1 request in 1 day: 1 served. The most on one day: 1, on 20 November 2026.",
		keyusage.DescribeBars(keyusage.Bars(keyusage.Last(noon, 1), []keyusage.DayCount{
			{Day: "2026-11-20", Outcome: api.CallServed, Calls: 1},
		})))
	require.Equal(t,
		"12,350 requests in 7 days: 12,345 served, 5 rejected. The most on one day: 12,345, on 18 November 2026. "+
			"None on 5 days.",
		keyusage.DescribeBars(keyusage.Bars(keyusage.Last(noon, 7), []keyusage.DayCount{
			{Day: "2026-11-18", Outcome: api.CallServed, Calls: 12_345},
			{Day: "2026-11-20", Outcome: api.CallMinuteLimitReached, Calls: 5},
		})))
}
