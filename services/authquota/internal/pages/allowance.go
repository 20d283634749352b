package pages

import (
	"context"
	"fmt"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/usage"
)

// Usage reads the usage of accounts from the database.
type Usage interface {
	ByDay(ctx context.Context, account string, r usage.Range) ([]usage.DayCount, error)
	// Busiest returns up to n keys with the most requests, and the sum of the others. total is the sum of all keys.
	Busiest(ctx context.Context, account string, r usage.Range, n int, total usage.Figures) (usage.KeyCounts, error)
	// Lines calls write with all usage in a range and stops at the first error.
	Lines(ctx context.Context, account string, r usage.Range, write func([]usage.Line) error) error
	// UsedOn returns the ledger's count of charged requests on a day.
	UsedOn(ctx context.Context, account string, day time.Time) (int, error)
}

// Counters reads the live counters that limits are checked against.
type Counters interface {
	Used(ctx context.Context, account string, day time.Time) (int, error)
}

// allowance is an account's use of its daily quota.
type allowance struct {
	api.Limits

	Used   int // charged
	Sent   int // charged or not, as far as it is known
	Left   int
	Reset  time.Time // when the day ends
	Copied bool      // Used is from the ledger, because the counters are unavailable
}

// Percent returns the used part of the quota, in percent.
func (a allowance) Percent() int { return min(100, (100*a.Used+a.PerDay-1)/a.PerDay) }

// Low reports whether most of the quota is used.
func (a allowance) Low() bool { return a.Percent() >= 80 }

// Out reports whether no quota is left.
func (a allowance) Out() bool { return a.Left == 0 }

// allowance returns today's usage of the person's account. Without Redis it uses the ledger and sets Copied.
func (s *Site) allowance(v *visit) (allowance, error) {
	limits, ok := s.Tiers[v.Person.Tier]
	if !ok {
		return allowance{}, fmt.Errorf("account %s has the unknown tier %q", v.Person.Account, v.Person.Tier)
	}
	a := allowance{Limits: limits, Reset: v.now.Truncate(24*time.Hour).AddDate(0, 0, 1)}
	var err error
	if a.Used, err = s.Counters.Used(v.Request.Context(), v.Person.Account, v.now); err != nil {
		a.Copied = true
		if a.Used, err = s.Usage.UsedOn(v.Request.Context(), v.Person.Account, v.now); err != nil {
			return a, err
		}
	}
	a.Left = max(0, a.PerDay-a.Used)
	today := usage.Last(v.now, 1)
	counts, err := s.Usage.ByDay(v.Request.Context(), v.Person.Account, today)
	a.Sent = max(a.Used, usage.Sum(usage.Bars(today, counts)).Total()) // statistics lag behind the counters by some seconds
	return a, err
}
