package accountpages

import (
	"fmt"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keyusage"
)

// Allowance is an account's use of its daily quota.
type Allowance struct {
	api.Limits

	Used   int // charged
	Sent   int // charged or not, as far as it is known
	Left   int
	Recent int       // accepted in the last 60 seconds, or -1 if unknown
	Reset  time.Time // when the day ends
	Copied bool      // Used is from the ledger, because the counters are unavailable
}

// Percent returns the used part of the quota, in percent.
func (a Allowance) Percent() int { return min(100, (100*a.Used+a.PerDay-1)/a.PerDay) }

// Low reports whether most of the quota is used.
func (a Allowance) Low() bool { return a.Percent() >= 80 }

// Out reports whether no quota is left.
func (a Allowance) Out() bool { return a.Left == 0 }

// today returns today's allowance of the person's account. Without Redis it uses the ledger and
// sets Copied.
func (p *Pages) today(v *Visit) (Allowance, error) {
	limits, ok := p.Tiers[v.Person.Tier]
	if !ok {
		return Allowance{}, fmt.Errorf("account %s has the unknown tier %q", v.Person.Account, v.Person.Tier)
	}
	a := Allowance{Limits: limits, Reset: v.Now.Truncate(24*time.Hour).AddDate(0, 0, 1)}
	var err error
	if a.Recent, err = p.Recent(v.Request.Context(), v.Person.Account); err != nil {
		a.Recent = -1
	}
	if a.Used, err = p.Charged(v.Request.Context(), v.Person.Account, v.Now); err != nil {
		a.Copied = true
		if a.Used, err = p.Usage.UsedOn(v.Request.Context(), v.Person.Account, v.Now); err != nil {
			return a, err
		}
	}
	a.Left = max(0, a.PerDay-a.Used)
	today := keyusage.Last(v.Now, 1)
	counts, err := p.Usage.ByDay(v.Request.Context(), v.Person.Account, today)
	a.Sent = max(a.Used, keyusage.Sum(keyusage.Bars(today, counts)).Total()) // statistics lag behind the counters by some seconds
	return a, err
}
