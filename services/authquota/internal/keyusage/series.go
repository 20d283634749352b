package keyusage

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
)

// RetentionDays is the number of days, including today, for which outcomes by key are stored.
const RetentionDays = 400

// ChartDays is the number of days in the chart.
const ChartDays = 90

// Choices are the ranges that the page offers, in days.
var Choices = []int{1, 7, 30, 90}

// Range is a span of whole UTC days.
type Range struct {
	From, To string // inclusive
	Days     int
}

// Last returns the n days that end today.
func Last(now time.Time, n int) Range {
	now = now.UTC()
	return Range{From: counter.DayOf(now.AddDate(0, 0, 1-n)), To: counter.DayOf(now), Days: n}
}

// fewestDays is the shortest span of a chart.
const fewestDays = 14

// Since returns the bars from the first day with requests on, and at least those of the last two
// weeks.
func Since(bars []Bar) []Bar {
	first := slices.IndexFunc(bars, func(b Bar) bool { return b.Total() > 0 })
	if first < 0 {
		first = len(bars)
	}
	return bars[max(0, min(first, len(bars)-fewestDays)):]
}

// ParseDays parses one of Choices. It returns fallback for other values.
func ParseDays(s string, fallback int) int {
	if n, err := strconv.Atoi(s); err == nil && slices.Contains(Choices, n) {
		return n
	}
	return fallback
}

// Includes reports whether the range contains day.
func (r Range) Includes(day string) bool { return r.From <= day && day <= r.To }

// each calls do for every day of the range, oldest first.
func (r Range) each(do func(day string)) {
	first, err := time.Parse(time.DateOnly, r.From)
	if err != nil {
		return
	}
	for i := range r.Days {
		do(counter.DayOf(first.AddDate(0, 0, i)))
	}
}

// DayCount is the number of requests of an account with one outcome on one day.
type DayCount struct {
	Day     string
	Outcome api.CallOutcome
	Calls   int
}

// Bar is one day of a chart.
type Bar struct {
	Day string
	Figures
}

// Bars returns the days of a range, oldest first, including days without requests. It ignores
// counts of other days.
func Bars(r Range, counts []DayCount) []Bar {
	bars := make([]Bar, 0, r.Days)
	at := make(map[string]int, r.Days)
	r.each(func(day string) {
		at[day] = len(bars)
		bars = append(bars, Bar{Day: day})
	})
	for _, c := range counts {
		if i, shown := at[c.Day]; shown {
			bars[i].Figures[GroupOf(c.Outcome)] += c.Calls
		}
	}
	return bars
}

// Sum returns the sum of the bars.
func Sum(bars []Bar) Figures {
	var sum Figures
	for _, b := range bars {
		sum = sum.Plus(b.Figures)
	}
	return sum
}

// OutcomeCount is the number of requests with one outcome.
type OutcomeCount struct {
	Explained

	Calls int
}

// ByOutcome adds up the days of a range by outcome, in the order of api.CallOutcomes. It omits
// outcomes without requests.
func ByOutcome(r Range, counts []DayCount) []OutcomeCount {
	sums := map[api.CallOutcome]int{}
	for _, c := range counts {
		if r.Includes(c.Day) {
			sums[c.Outcome] += c.Calls
		}
	}
	var list []OutcomeCount
	for _, o := range api.CallOutcomes {
		if sums[o] > 0 {
			list = append(list, OutcomeCount{Explain(o), sums[o]})
		}
	}
	return list
}

// KeyCount is the usage of one key.
type KeyCount struct {
	ID    string
	Name  string // may be empty
	Shown string // how it is displayed, such as oda_live_…A1b2

	Figures
}

// KeyCounts are the most used keys of an account, and the total of all others.
type KeyCounts struct {
	Busiest []KeyCount
	Others  int // number of other keys with requests
	Rest    Figures
}

// TierCount is the number of requests with one outcome on one day by all accounts of a tier.
type TierCount struct {
	DayCount

	Tier api.Tier
}

// Report adds up counts by day and tier. It may have several counts for the same outcome.
func Report(counts []TierCount) api.UsageReport {
	type entry struct {
		day  string
		tier api.Tier
	}
	sums := map[entry]*api.TierUsage{}
	for _, c := range counts {
		e := entry{c.Day, c.Tier}
		if sums[e] == nil {
			sums[e] = &api.TierUsage{Date: c.Day, Tier: c.Tier, Refused: map[api.CallOutcome]int{}}
		}
		sums[e].Calls += c.Calls
		switch GroupOf(c.Outcome) {
		case Rejected:
			sums[e].Refused[c.Outcome] += c.Calls
		case Failed:
			sums[e].Failed += c.Calls
		}
	}
	report := api.UsageReport{Days: make([]api.TierUsage, 0, len(sums))}
	for _, sum := range sums {
		report.Days = append(report.Days, *sum)
	}
	slices.SortFunc(report.Days, func(a, b api.TierUsage) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Tier.Rank(), b.Tier.Rank()))
	})
	return report
}
