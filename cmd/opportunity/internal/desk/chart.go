package desk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
)

// freshnessPage is the data of the freshness page.
type freshnessPage struct {
	api.Freshness

	History, Due chart
}

// maxDays bounds the columns of the chart, and with them the size of the page.
const maxDays = 90

func (d *Desk) freshness(v *visit) (view, error) {
	f, err := call(v, adminapi.GetFreshness, adminapi.Input{})
	history := chart{ID: "over-time", Label: "Published records by status", Legend: []series{
		{Class: "verified", Label: "verified"}, {Class: "stale", Label: "stale"},
		{Class: "needs-review", Label: "needs review"}, {Class: "unverified", Label: "never reviewed"},
	}}
	samples := append(f.Days, f.Now)
	for _, s := range samples[max(0, len(samples)-maxDays):] {
		history.Columns = append(history.Columns,
			column{Day: s.Day, Counts: []int{s.Verified, s.Stale, s.NeedsReview, s.Unverified}})
	}
	due := chart{ID: "ahead", Label: "Reviews of each day (UTC)",
		Legend: []series{{Class: "due", Label: "due"}, {"target", "target", true}}}
	for _, day := range f.Ahead {
		due.Columns = append(due.Columns, column{Day: day.Day, Counts: []int{day.Due, day.Target}})
	}
	page := freshnessPage{f, history.drawn(true), due.drawn(false)}
	return view{Template: "freshness", Title: "Freshness", Data: page}, err
}

// usagePage is the data of the usage page.
type usagePage struct {
	Days            int
	Choices         []int
	Calls, Rejected chart
	Failed          int
}

// usageDays are the ranges of days to choose from. Longer ones would make the page large.
var usageDays = []int{7, 30, 60}

func (d *Desk) usage(v *visit) (view, error) {
	page := usagePage{Days: 30, Choices: usageDays}
	if n, err := strconv.Atoi(v.FormValue("days")); err == nil && slices.Contains(usageDays, n) {
		page.Days = n
	}
	report, err := call(v, adminapi.GetUsage, adminapi.Input{Query: adminapi.Query("days", strconv.Itoa(page.Days))})
	days := make([]string, page.Days) // today last
	for i := range days {
		days[i] = v.now.UTC().AddDate(0, 0, i+1-page.Days).Format(time.DateOnly)
	}
	page.Calls = usageChart("calls", days, verbs.Tiers(), report, func(u api.TierUsage, tier api.Tier) int {
		if u.Tier != tier {
			return 0
		}
		return u.Calls
	})
	page.Rejected = usageChart("rejected", days, outcomes(report), report,
		func(u api.TierUsage, outcome api.CallOutcome) int { return u.Refused[outcome] })
	for _, u := range report.Days {
		page.Failed += u.Failed
	}
	return view{Template: "usage", Title: "Usage", Data: page}, err
}

// outcomes returns the reasons for which calls were rejected, in the order of api.CallOutcomes.
func outcomes(report api.UsageReport) []api.CallOutcome {
	return slices.DeleteFunc(slices.Clone(api.CallOutcomes[:]), func(o api.CallOutcome) bool {
		return !slices.ContainsFunc(report.Days, func(u api.TierUsage) bool { return u.Refused[o] > 0 })
	})
}

// usageChart returns the chart of a report with a series for each name. count returns the calls of
// a series in an entry. Other days are ignored.
func usageChart[N ~string](
	id string, days []string, names []N, report api.UsageReport, count func(u api.TierUsage, name N) int,
) chart {
	c := chart{ID: id, Label: "Calls of each day (UTC)"}
	for i, name := range names {
		c.Legend = append(c.Legend,
			series{Class: fmt.Sprintf("series-%d", i), Label: strings.ReplaceAll(string(name), "_", " ")})
	}
	for _, day := range days {
		col := column{Day: day, Counts: make([]int, len(names))}
		for _, u := range report.Days {
			for i, name := range names {
				if u.Date == day {
					col.Counts[i] += count(u, name)
				}
			}
		}
		c.Columns = append(c.Columns, col)
	}
	return c.drawn(false)
}

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
