package desk

import (
	"opportunity.internal/cmd/opportunity/internal/adminapi"
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
