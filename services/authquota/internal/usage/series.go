package usage

import (
	"slices"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
)

// Kept is for how many days, today included, it is kept how the calls of each key ended.
const Kept = 400

// Charted is how many days the chart shows.
const Charted = 90

// Choices are the ranges that a page offers, in days.
var Choices = []int{1, 7, 30, 90}

// Range is a span of whole UTC days that ends today.
type Range struct {
	From, To string // both included
	Days     int
}

// Last are the n days that end with the day of now.
func Last(now time.Time, n int) Range {
	now = now.UTC()
	return Range{From: counter.DayOf(now.AddDate(0, 0, 1-n)), To: counter.DayOf(now), Days: n}
}

// ParseDays reads one of Choices; what is none gives fallback.
func ParseDays(s string, fallback int) int {
	if n, err := strconv.Atoi(s); err == nil && slices.Contains(Choices, n) {
		return n
	}
	return fallback
}

// Includes reports whether day is one of the range's.
func (r Range) Includes(day string) bool { return r.From <= day && day <= r.To }

// each calls do with every day of the range, oldest first.
func (r Range) each(do func(day string)) {
	first, err := time.Parse(time.DateOnly, r.From)
	if err != nil {
		return
	}
	for i := range r.Days {
		do(counter.DayOf(first.AddDate(0, 0, i)))
	}
}

// DayCount is how many calls of an account ended in one way on one day.
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

// Bars are the days of a range, oldest first, those without calls included. Counts of other days are left out.
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

// Sum is what the bars come to.
func Sum(bars []Bar) Figures {
	var sum Figures
	for _, b := range bars {
		sum = sum.Plus(b.Figures)
	}
	return sum
}

// OutcomeCount is how many calls ended in one way.
type OutcomeCount struct {
	Explained

	Calls int
}

// ByOutcome adds up the days of a range by outcome, in the order of api.CallOutcomes; outcomes that nobody met are left out.
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

// KeyCount is how the calls of one key ended.
type KeyCount struct {
	ID    string
	Name  string // may be empty
	Shown string // how it is recognised, such as oda_live_…A1b2

	Figures
}

// KeyCounts are the busiest keys of an account, and what all the others come to.
type KeyCounts struct {
	Busiest []KeyCount
	Others  int // keys that made calls and are not among the busiest
	Rest    Figures
}
