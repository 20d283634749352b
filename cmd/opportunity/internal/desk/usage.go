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

// usageDays are the ranges of days to choose from. Longer ones would make the page large.
var usageDays = []int{7, 30, 60}

// usagePage is the data of the usage page.
type usagePage struct {
	Days            int
	Choices         []int
	Calls, Rejected chart
	Failed          int
}

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

// usageChart returns the chart of a report with a series for each name. count returns the calls of a
// series in an entry. Other days are ignored.
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
