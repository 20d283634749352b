package usage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// KeySum is the number of requests of a key with one outcome on one day.
type KeySum struct {
	Key     string
	Day     string
	Outcome api.CallOutcome
	Calls   int
}

// Batch is a validated usage batch of one gateway. It has one sum per key, day and outcome. The sums are sorted by key, so that
// concurrent writers lock rows in the same order and cannot deadlock.
type Batch struct {
	ID       string
	Sums     []KeySum
	LastUsed map[string]time.Time // by key
}

// BatchRetention is the time for which duplicate batches are recognized. Gateways retry a batch within seconds.
const BatchRetention = 48 * time.Hour

// maxCalls is far above what a gateway can count in one batch.
const maxCalls = 1_000_000_000

// Check validates a batch. Times in the future, from a gateway whose clock is ahead, count as now.
func Check(sent api.UsageBatch, now time.Time) (Batch, error) {
	if id, err := uuid.Parse(sent.ID); err != nil || id.Version() != 7 || id.String() != sent.ID {
		return Batch{}, account.Invalid("id", "must be a UUID of version 7 in lower case")
	}
	if len(sent.Counts) > api.MaxUsageCounts {
		return Batch{}, account.Invalid("tallies", fmt.Sprintf("must have at most %d entries", api.MaxUsageCounts))
	}
	retained := Last(now.AddDate(0, 0, 1), RetentionDays+1) // tomorrow: a gateway's clock may be ahead at midnight
	sums, last := map[KeySum]int{}, map[string]time.Time{}
	for i, t := range sent.Counts {
		if what := checkCount(t, retained); what != "" {
			return Batch{}, problem.New(problem.InvalidParameter, "Field tallies[%d].%s.", i, what)
		}
		sums[KeySum{Key: t.Key, Day: t.Day, Outcome: t.Outcome}] += t.Calls
		at := t.LastAt
		if at.After(now) {
			at = now
		}
		if at.After(last[t.Key]) {
			last[t.Key] = at
		}
	}
	return Batch{ID: sent.ID, Sums: sorted(sums), LastUsed: last}, nil
}

func checkCount(t api.UsageCount, retained Range) string {
	switch {
	case !account.ValidID("key_", t.Key):
		return "key must be a key ID"
	case !t.Outcome.Known():
		return "outcome must be a known outcome"
	case !ValidDay(t.Day) || !retained.Includes(t.Day):
		return "day must be a UTC day such as " + counter.DayOf(time.Unix(0, 0)) + ", not in the future and within the retention"
	case t.Calls < 1 || t.Calls > maxCalls:
		return fmt.Sprintf("calls must be an integer from 1 to %d", maxCalls)
	case t.LastAt.Year() < 2000 || t.LastAt.Year() > 9999:
		return "lastAt must be the time of the last request"
	}
	return ""
}

func sorted(sums map[KeySum]int) []KeySum {
	list := slices.SortedFunc(maps.Keys(sums), func(a, b KeySum) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Outcome, b.Outcome))
	})
	for i := range list {
		list[i].Calls = sums[list[i]]
	}
	return list
}
