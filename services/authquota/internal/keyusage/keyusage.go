// Package keyusage counts the requests of accounts: the counters in Redis that limits are checked
// against, their copy in the database (the ledger), the outcomes of requests by key, and the sums
// for charts.
package keyusage

import (
	"cmp"
	"slices"
	"time"

	"opportunity.internal/pkg/counter"
)

// Count is the number of requests charged to an account on one day. counter.ServiceField stands for
// all accounts.
type Count struct {
	Account string
	Calls   int
}

// Counts returns the counters that are not zero, sorted by account. The order prevents deadlocks
// between two writers.
func Counts(counters map[string]int) []Count {
	var counts []Count
	for account, calls := range counters {
		if calls > 0 {
			counts = append(counts, Count{account, calls})
		}
	}
	slices.SortFunc(counts, func(a, b Count) int { return cmp.Compare(a.Account, b.Account) })
	return counts
}

// FinalAfter is the time after midnight when yesterday's counters are copied for the last time.
// Requests are charged by the clock of Redis, which may lag by less than that.
const FinalAfter = 10 * time.Minute

// Days returns the UTC days at now and before, and whether yesterday's counters are final.
func Days(now time.Time) (today, before string, settled bool) {
	now = now.UTC()
	return counter.DayOf(now), counter.DayOf(now.AddDate(0, 0, -1)), now.Sub(now.Truncate(24*time.Hour)) >= FinalAfter
}

// ValidDay reports whether s is a day as counter.DayOf formats it.
func ValidDay(s string) bool {
	t, err := time.Parse(time.DateOnly, s)
	return err == nil && counter.DayOf(t) == s
}
