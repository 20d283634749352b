package desk

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// usageDays are the ranges of days to choose from. Longer ones would make the page large.
var usageDays = []int{7, 30, 60}

// usagePage is the data of the usage page.
type usagePage struct {
	Days            int
	Choices         []choice
	Calls, Rejected usageChart
	Failed          int
}

// usageChart is a chart of calls by day, with its table.
type usageChart struct {
	Legend []series
	Days   []usageDay // oldest first
	Sum    int
	Most   int // calls of the highest column
}

// series is a part of each column.
type series struct{ Class, Label string }

// shownChart is a chart under the heading with the id ID.
type shownChart struct {
	Chart usageChart
	ID    string
}

func newShownChart(c usageChart, id string) shownChart { return shownChart{c, id} }

// usageDay is a column.
type usageDay struct {
	Day    string
	Counts []int // by series
	Sum    int
	Bars   []bar
}

// Title describes the column.
func (c usageChart) Title(d usageDay) string {
	text := []string{fmt.Sprintf("%s: %d", d.Day, d.Sum)}
	for i, n := range d.Counts {
		if n > 0 {
			text = append(text, fmt.Sprintf("%s %d", c.Legend[i].Label, n))
		}
	}
	return strings.Join(text, ", ")
}

func (d *Desk) usage(v *visit) (view, error) {
	page := usagePage{Days: 30}
	if n, err := strconv.Atoi(v.FormValue("days")); err == nil && slices.Contains(usageDays, n) {
		page.Days = n
	}
	for _, n := range usageDays {
		page.Choices = append(page.Choices,
			choice{Value: "/usage?" + url.Values{"days": {strconv.Itoa(n)}}.Encode(), Label: strconv.Itoa(n) + " days",
				Checked: n == page.Days})
	}
	report, _, err := adminapi.Get[api.UsageReport](v.Context(), v.client, "/usage", "days", strconv.Itoa(page.Days))
	if err != nil {
		return view{}, err
	}
	days := lastDays(v.now.UTC(), page.Days)
	page.Calls = newUsageChart(days, tiers(), report,
		func(u api.TierUsage, count func(api.Tier, int)) { count(u.Tier, u.Calls) })
	page.Rejected = newUsageChart(days, outcomes(report), report, func(u api.TierUsage, count func(api.CallOutcome, int)) {
		for outcome, n := range u.Refused {
			count(outcome, n)
		}
	})
	for _, u := range report.Days {
		page.Failed += u.Failed
	}
	return view{Template: "usage", Title: "Usage", Data: page}, nil
}

// lastDays returns the last n UTC days, today last.
func lastDays(now time.Time, n int) []string {
	days := make([]string, n)
	for i := range days {
		days[i] = now.UTC().AddDate(0, 0, i+1-n).Format(time.DateOnly)
	}
	return days
}

func tiers() (names []api.Tier) {
	for _, t := range api.Tiers {
		names = append(names, t.Tier)
	}
	return names
}

// outcomes returns the reasons for which calls were rejected, in the order of api.CallOutcomes.
func outcomes(report api.UsageReport) (names []api.CallOutcome) {
	for _, o := range api.CallOutcomes {
		if slices.ContainsFunc(report.Days, func(u api.TierUsage) bool { return u.Refused[o] > 0 }) {
			names = append(names, o)
		}
	}
	return names
}

// newUsageChart returns the chart of a report. each passes on the counts of an entry by the name of
// their series. It ignores other days and names.
func newUsageChart[N ~string](
	days []string, names []N, report api.UsageReport, each func(u api.TierUsage, count func(name N, n int)),
) usageChart {
	c := usageChart{Days: make([]usageDay, len(days))}
	for i, name := range names {
		c.Legend = append(c.Legend, series{fmt.Sprintf("series-%d", i), strings.ReplaceAll(string(name), "_", " ")})
	}
	for i, day := range days {
		c.Days[i] = usageDay{Day: day, Counts: make([]int, len(names))}
	}
	for _, u := range report.Days {
		day := slices.Index(days, u.Date)
		each(u, func(name N, n int) {
			if i := slices.Index(names, name); day >= 0 && i >= 0 {
				c.Days[day].Counts[i] += n
				c.Days[day].Sum += n
				c.Sum += n
				c.Most = max(c.Most, c.Days[day].Sum)
			}
		})
	}
	for i := range c.Days {
		d := &c.Days[i]
		parts := make([]part, len(names))
		for n := range names {
			parts[n] = part{c.Legend[n].Class, d.Counts[n]}
		}
		d.Bars = stack(i, len(days), c.Most, parts)
	}
	return c
}
