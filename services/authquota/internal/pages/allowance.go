package pages

import (
	"context"
	"fmt"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/usage"
)

// Usage reads what accounts used from the database.
type Usage interface {
	ByDay(ctx context.Context, account string, r usage.Range) ([]usage.DayCount, error)
	// Busiest are at most n keys, of the total that all keys of the account come to.
	Busiest(ctx context.Context, account string, r usage.Range, n int, total usage.Figures) (usage.KeyCounts, error)
	// Lines hands everything in a range to write, and stops at its first error.
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
	Copied bool      // Used is the ledger's figure, because the counters are out of reach
}

// Percent is the part that is used, in percent of a bar.
func (a allowance) Percent() int { return min(100, (100*a.Used+a.PerDay-1)/a.PerDay) }

// Low tells that most of the allowance is used, and Out that all of it is.
func (a allowance) Low() bool { return a.Percent() >= 80 }

// Out reports whether nothing is left.
func (a allowance) Out() bool { return a.Left == 0 }

// allowance reads what the person's account has used today. Without Redis the page shows what the ledger has, and says so.
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
	a.Sent = max(a.Used, usage.Sum(usage.Bars(today, counts)).Total()) // statistics follow the counters by some seconds
	return a, err
}
