package keyusage_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// The documentation states the days of the chart and of the file.
func TestDocumentationHasTheDays(t *testing.T) {
	text := storetest.Must(os.ReadFile("../../../../docs/consumers/usage.md"))(t)
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
		require.Len(t, bars, r.Days)
		require.Equal(t, []string{bars[0].Day, bars[r.Days-1].Day}, []string{r.From, r.To})
		for i, bar := range bars {
			require.Equal(t, counter.DayOf(now.AddDate(0, 0, i+1-r.Days)), bar.Day)
		}
		var want keyusage.Figures
		for _, c := range counts {
			if r.Includes(c.Day) {
				want[keyusage.GroupOf(c.Outcome)] += c.Calls
			}
		}
		require.Equal(t, want, keyusage.Sum(bars))
		outcomes := 0
		for _, o := range keyusage.ByOutcome(r, counts) {
			outcomes += o.Calls
		}
		require.Equal(t, want.Total(), outcomes)
	})
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
			drawn := storetest.Must(keyusage.Chart(keyusage.Bars(keyusage.Last(noon, 30), counts)))(t)
			got := string(drawn)
			file := "testdata/" + name + ".svg"
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			require.Equal(t, string(storetest.Must(os.ReadFile(file))(t)), got)
		})
	}
}

func TestSteps(t *testing.T) {
	late := time.Date(2026, 11, 1, 23, 30, 0, 0, time.FixedZone("New York", -5*60*60))
	require.Equal(t, keyusage.Range{From: "2026-10-31", To: "2026-11-02", Days: 3}, keyusage.Last(late, 3), "days are UTC")
	require.Equal(t, "No requests in 1 day.", keyusage.DescribeBars(keyusage.Bars(keyusage.Last(noon, 1), nil)))
	for most, want := range map[int]int{0: 1, 1: 1, 5: 1, 6: 2, 10: 2, 11: 5, 25: 5, 26: 10, 100: 20, 1230: 500,
		9_999: 2000, 50_000: 10_000} {
		require.Equal(t, want, keyusage.AxisStep(most), most)
	}
}
