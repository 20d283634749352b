package desk

import (
	"cmp"
	"maps"
	"slices"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// freshnessPage is the data of the freshness page.
type freshnessPage struct {
	api.Freshness

	History []sample // a column for each day
	Due     []column
	Most    int // records of the highest column of Due
	Checks  []linkCount
}

// sample is the column of a day, with the share of each status.
type sample struct {
	api.FreshnessSample

	Bars []bar
}

// column is the number of due records of a day, with the line of its target.
type column struct {
	api.DueDay

	Bar    bar
	Target bar
}

// linkCount is the number of records with an outcome of the latest link check.
type linkCount struct {
	Outcome string
	Records int
}

func (d *Desk) freshness(v *visit) (view, error) {
	f, _, err := adminapi.Get[api.Freshness](v.Context(), v.client, "/reviews/freshness")
	if err != nil {
		return view{}, err
	}
	page := freshnessPage{Freshness: f, History: stacks(append(f.Days, f.Now))}
	page.Due, page.Most = columns(f.Ahead)
	for _, outcome := range slices.Sorted(maps.Keys(f.Links)) {
		page.Checks = append(page.Checks, linkCount{cmp.Or(string(outcome), "never checked"), f.Links[outcome]})
	}
	return view{Template: "freshness", Title: "Freshness", Data: page}, nil
}

// maxDays bounds the columns of the chart, and with them the size of the page.
const maxDays = 90

// stacks draws the latest samples: from below verified, stale, needs-review and unverified.
func stacks(samples []api.FreshnessSample) (all []sample) {
	samples = samples[max(0, len(samples)-maxDays):]
	for i, s := range samples {
		all = append(all, sample{s, stack(i, len(samples), s.Verified+s.Stale+s.NeedsReview+s.Unverified, []part{
			{"verified", s.Verified}, {"stale", s.Stale}, {"needs-review", s.NeedsReview}, {"unverified", s.Unverified},
		})})
	}
	return all
}

// columns draws the due records of the days ahead and returns the highest number.
func columns(days []api.DueDay) (all []column, most int) {
	for _, day := range days {
		most = max(most, day.Due, day.Target)
	}
	width := float64(chartWidth) / float64(max(1, len(days)))
	for i, day := range days {
		height := func(n int) float64 { return chartHeight * float64(n) / float64(max(1, most)) }
		x, due, target := float64(i)*width, height(day.Due), height(day.Target)
		all = append(all, column{day, bar{x, chartHeight - due, width * 0.8, due, "due"},
			bar{x, chartHeight - target, width * 0.8, 0, "target"}})
	}
	return all, most
}

// Short returns the month and the day, such as 11-20.
func (c column) Short() string { return c.Day[min(5, len(c.Day)):] }
