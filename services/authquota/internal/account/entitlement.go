package account

import (
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// The last instant that an entitlement may name is far enough for any plan, and one that JSON can say in every time zone.
var lastInstant = time.Date(9998, 1, 1, 0, 0, 0, 0, time.UTC)

// Entitled is what billing says of an account in its canonical form. It refuses the first field that is wrong.
func Entitled(e api.Entitlement) (api.Entitlement, error) {
	if _, sold := api.PlanOf(e.Tier); !sold {
		names := make([]string, len(api.Plans))
		for i, p := range api.Plans {
			names[i] = string(p.Tier)
		}
		return e, Invalid("tier", "must be that of a plan: "+strings.Join(names, ", "))
	}
	switch {
	case e.Tier == api.Free && e.PaidUntil != nil:
		return e, Invalid("paidUntil", "must be null where tier is free: nothing is paid for")
	case e.Tier != api.Free && e.PaidUntil == nil:
		return e, Invalid("paidUntil", "must be an instant where tier is not free")
	case e.PaidUntil != nil && (e.PaidUntil.Unix() <= 0 || e.PaidUntil.After(lastInstant)):
		return e, Invalid("paidUntil", "must be after 1970 and before 9998")
	case e.Version < 1:
		return e, Invalid("version", "must be at least 1")
	}
	switch e.Trouble {
	case api.NoTrouble, api.PaymentFailed, api.Refunded, api.Disputed:
	default:
		return e, Invalid("trouble", "must be empty, payment-failed, refunded or disputed")
	}
	if e.PaidUntil != nil {
		until := e.PaidUntil.UTC().Truncate(time.Microsecond) // what is kept
		e.PaidUntil = &until
	}
	return e, nil
}

// settling is how long after the end of a paid period a renewal may take that is on its way: billing has it charged within seconds
// and, where that fails, the processor does it an hour or so later. The tier ends on the second all the same; only the person is not
// alarmed meanwhile.
const settling = 3 * time.Hour

// News is which mail the person is sent as after takes the place of before, or none, and whether the person takes the plan to be on from
// then on, as it was taken to be (on) until then. It goes by what holds and not by what happened, because changes may be told late, twice
// or not at all.
func News(on bool, before, after api.Entitlement, now time.Time) (mail string, nowOn bool) {
	switch {
	case !after.Live(now):
		return EndNews(on, after, now)
	case !on:
		return "plan-started", true
	case after.Trouble == api.PaymentFailed && before.Trouble != api.PaymentFailed:
		return "payment-failed", true
	case before.Renews && !after.Renews:
		return "plan-cancelled", true
	case !before.Renews && after.Renews:
		return "plan-resumed", true
	}
	return "", true
}

// EndNews is News where nothing has changed but the clock.
func EndNews(on bool, e api.Entitlement, now time.Time) (mail string, nowOn bool) {
	switch {
	case !on || e.Live(now):
		return "", on
	case e.Trouble == api.Refunded:
		return "plan-refunded", false
	case e.Trouble == api.Disputed:
		return "plan-disputed", false
	case e.Trouble == api.PaymentFailed:
		return "plan-unpaid", false
	case e.Renews && e.PaidUntil != nil && now.Before(e.PaidUntil.Add(settling)):
		return "", true
	}
	return "plan-ended", false
}
