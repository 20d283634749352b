package review

import "time"

// EarlyDays is the number of days before a record turns stale on which it can be reviewed early, to
// level the load: from day 11 of 14.
const EarlyDays = 3

// Horizon is the number of days that Level takes into account.
const Horizon = 15

// Backlog counts the records by the UTC day on which they fall due: today (overdue ones included),
// tomorrow, and so on.
type Backlog [Horizon]int

// Level returns how many reviews to do today, including the done ones, so that the load of the
// working days is even and every record is reviewed before it falls due. On Saturday and Sunday it
// is 0.
//
// The last day for a review is the day before the record falls due, because it may fall due at any
// hour. Level is the lowest constant number of reviews per working day that meets all these
// deadlines, limited to the records within EarlyDays of falling due.
func Level(due Backlog, done int, today time.Time) int {
	if !working(today) {
		return 0
	}
	pace, sum, days := 0, done+due[0], 0
	for day := range Horizon - 1 {
		if working(today.AddDate(0, 0, day)) {
			days++
		}
		sum += due[day+1] // all to be done by the end of day
		pace = max(pace, (sum+days-1)/days)
	}
	available := done
	for _, n := range due[:EarlyDays+1] {
		available += n
	}
	return min(pace, available)
}

func working(day time.Time) bool {
	d := day.UTC().Weekday()
	return d != time.Saturday && d != time.Sunday
}

// Plan returns the number of reviews for each day from today on if every day follows Level and no
// other record falls due.
func Plan(due Backlog, done int, today time.Time) (days [Horizon]int) {
	for i := range days {
		days[i] = Level(due, done, today.AddDate(0, 0, i))
		left := max(0, days[i]-done)
		for j := range due { // the longest due first
			n := min(left, due[j])
			due[j] -= n
			left -= n
		}
		done = 0
		due[1] += due[0] // what is still due is overdue tomorrow
		copy(due[:], due[1:])
		due[Horizon-1] = 0
	}
	return days
}
