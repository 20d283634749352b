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
	report, _, err := adminapi.Get[api.UsageReport](v.Context(), v.client, "/usage", "days", strconv.Itoa(page.Days))
	days := make([]string, page.Days) // today last
	for i := range days {
		days[i] = v.now.UTC().AddDate(0, 0, i+1-page.Days).Format(time.DateOnly)
	}
	page.Calls = usageChart("calls", days, verbs.Tiers(), report,
		func(u api.TierUsage, count func(api.Tier, int)) { count(u.Tier, u.Calls) })
	page.Rejected = usageChart("rejected", days, outcomes(report), report,
		func(u api.TierUsage, count func(api.CallOutcome, int)) {
			for outcome, n := range u.Refused {
				count(outcome, n)
			}
		})
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

// usageChart returns the chart of a report. each passes on the counts of an entry by the name of
// their series. It ignores other days and names.
func usageChart[N ~string](
	id string, days []string, names []N, report api.UsageReport, each func(u api.TierUsage, count func(name N, n int)),
) chart {
	c := chart{ID: id, Label: "Calls of each day (UTC)"}
	for i, name := range names {
		c.Legend = append(c.Legend,
			series{Class: fmt.Sprintf("series-%d", i), Label: strings.ReplaceAll(string(name), "_", " ")})
	}
	for _, day := range days {
		c.Columns = append(c.Columns, column{Day: day, Counts: make([]int, len(names))})
	}
	for _, u := range report.Days {
		day := slices.Index(days, u.Date)
		each(u, func(name N, n int) {
			if i := slices.Index(names, name); day >= 0 && i >= 0 {
				c.Columns[day].Counts[i] += n
			}
		})
	}
	return c.drawn(false)
}
