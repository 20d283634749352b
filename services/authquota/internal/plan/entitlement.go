package plan

import (
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/account"
)

// lastInstant is the latest valid end of an entitlement. JSON can represent it in every time zone.
var lastInstant = time.Date(9998, 1, 1, 0, 0, 0, 0, time.UTC)

// Entitled returns an entitlement in its canonical form, or an error for the first invalid field.
func Entitled(e api.Entitlement) (api.Entitlement, error) {
	if _, sold := api.PlanOf(e.Tier); !sold {
		names := make([]string, len(api.Plans))
		for i, p := range api.Plans {
			names[i] = string(p.Tier)
		}
		return e, account.Invalid("tier", "must be that of a plan: "+strings.Join(names, ", "))
	}
	switch {
	case e.Tier == api.BaseTier && e.PaidUntil != nil:
		return e, account.Invalid("paidUntil", "must be null where tier is "+string(api.BaseTier)+": nothing is paid for")
	case e.Tier != api.BaseTier && e.PaidUntil == nil:
		return e, account.Invalid("paidUntil", "must be an instant where tier is not "+string(api.BaseTier))
	case e.PaidUntil != nil && (e.PaidUntil.Unix() <= 0 || e.PaidUntil.After(lastInstant)):
		return e, account.Invalid("paidUntil", "must be after 1970 and before 9998")
	case e.Version < 1:
		return e, account.Invalid("version", "must be at least 1")
	}
	switch e.Trouble {
	case api.NoTrouble, api.PaymentFailed, api.Refunded, api.Disputed:
	default:
		return e, account.Invalid("trouble", "must be empty, payment-failed, refunded or disputed")
	}
	if e.PaidUntil != nil {
		until := e.PaidUntil.UTC().Truncate(time.Microsecond) // the precision of the database
		e.PaidUntil = &until
	}
	return e, nil
}

// settling is the time in which a renewal may arrive after the paid period has ended: billing charges within seconds and, after a
// failure, the processor retries about an hour later. The tier ends on time; only the mail about it waits.
const settling = 3 * time.Hour

// News returns which mail to send when after replaces before, if any, and whether the person considers the plan active from
// then on. on is the previous value. It compares states rather than events, because events may arrive late, twice or not at
// all.
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

// Renewed reports whether after extends the paid period of a plan that the person considers active.
func Renewed(on bool, before, after api.Entitlement, now time.Time) bool {
	return on && after.Live(now) && before.Tier == after.Tier && after.PaidUntil.After(*before.PaidUntil)
}

// EndNews is News for the passage of time without a change.
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
