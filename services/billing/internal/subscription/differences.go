package subscription

import (
	"fmt"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
)

// Differences are the fields in which two states of one subscription differ, as the operators' report shows them.
func Differences(had, has State) []api.BillingDifference {
	was, is := had.fields(), has.fields()
	var out []api.BillingDifference
	for i, f := range is {
		if f.value != was[i].value {
			out = append(out, api.BillingDifference{Account: has.Account, Subscription: has.ID, Field: f.name, Had: was[i].value, Has: f.value})
		}
	}
	return out
}

// EntitlementDifference is what two entitlements of an account differ in but their versions; different is false where that is nothing.
func EntitlementDifference(account string, had, has api.Entitlement) (d api.BillingDifference, different bool) {
	d = api.BillingDifference{Account: account, Field: "entitlement", Had: words(had), Has: words(has)}
	return d, d.Had != d.Has
}

func words(e api.Entitlement) string {
	said := string(e.Tier)
	if e.PaidUntil != nil {
		said += " until " + e.PaidUntil.UTC().Format(time.RFC3339Nano)
	}
	if e.Renews {
		said += ", renews"
	}
	if e.Trouble != api.NoTrouble {
		said += ", " + string(e.Trouble)
	}
	return said
}

type field struct{ name, value string }

func (s State) fields() []field {
	p := Payment{}
	until := ""
	if s.Paid != nil {
		p, until = *s.Paid, s.Paid.Until.UTC().Format(time.RFC3339)
	}
	yes := strconv.FormatBool
	return []field{
		{"account", s.Account}, {"customer", s.Customer}, {"tier", fmt.Sprint(s.Tier)}, {"ended", yes(s.Ended)},
		{"cancelAtPeriodEnd", yes(s.CancelAtPeriodEnd)}, {"paidInvoice", p.Invoice}, {"paidUntil", until},
		{"refunded", yes(p.Refunded)}, {"disputed", yes(p.Disputed)}, {"failing", yes(s.Failing)},
	}
}

// Same reports whether two states say the same.
func Same(a, b State) bool { return a.ID == b.ID && len(Differences(a, b)) == 0 }
