// Package usage is what was used: the rule by which the counters of a day are copied from Redis to the ledger, the tallies of how
// calls ended, and what both come to in a chart.
package usage

import (
	"cmp"
	"slices"
	"time"

	"opportunity.internal/pkg/counter"
)

// Count is how many calls were charged to an account on one day; counter.ServiceField stands for all accounts.
type Count struct {
	Account string
	Calls   int
}

// Growth lists the counts that are greater than what was written before, in the order of the accounts. Only growth is
// written: a counter that shrank was given back, or was lost with Redis, and the ledger cannot tell which. The order keeps two
// writers from waiting for each other.
func Growth(written, read map[string]int) []Count {
	var grown []Count
	for account, calls := range read {
		if calls > written[account] {
			grown = append(grown, Count{account, calls})
		}
	}
	slices.SortFunc(grown, func(a, b Count) int { return cmp.Compare(a.Account, b.Account) })
	return grown
}

// Settled is how long after midnight the counters of the day before are copied once more. Calls are charged by the clock of
// Redis, which may be behind ours by less than that.
const Settled = 10 * time.Minute

// Days are the UTC days at now and before it, and whether the counters of the day before have reached their last value.
func Days(now time.Time) (today, before string, settled bool) {
	now = now.UTC()
	return counter.DayOf(now), counter.DayOf(now.AddDate(0, 0, -1)), now.Sub(now.Truncate(24*time.Hour)) >= Settled
}

// ValidDay reports whether s is a day as counter.DayOf writes it.
func ValidDay(s string) bool {
	t, err := time.Parse(time.DateOnly, s)
	return err == nil && counter.DayOf(t) == s
}
