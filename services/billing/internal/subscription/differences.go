package subscription

import (
	"fmt"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
)

// Differences lists the fields in which two states of one subscription differ, for the
// reconciliation report. They are healed: after is stored.
func Differences(before, after State) []api.BillingDifference {
	old, current := before.fields(), after.fields()
	var out []api.BillingDifference
	for i, f := range current {
		if f.value != old[i].value {
			out = append(out, api.BillingDifference{
				Account: after.Account, Subscription: after.ID, Field: f.name, Had: old[i].value, Has: f.value,
				Healed: true,
			})
		}
	}
	return out
}

// EntitlementDifference compares two entitlements of an account, ignoring their versions. different
// is false if they are equal.
func EntitlementDifference(account string, before, after api.Entitlement) (d api.BillingDifference, different bool) {
	d = api.BillingDifference{Account: account, Field: "entitlement", Had: describe(before), Has: describe(after),
		Healed: true}
	return d, d.Had != d.Has
}

func describe(e api.Entitlement) string {
	text := string(e.Tier)
	if e.PaidUntil != nil {
		text += " until " + e.PaidUntil.UTC().Format(time.RFC3339Nano)
	}
	if e.Renews {
		text += ", renews"
	}
	if e.Trouble != api.NoTrouble {
		text += ", " + string(e.Trouble)
	}
	return text
}

type field struct{ name, value string }

func (s State) fields() []field {
	p := Payment{}
	until := ""
	if s.Paid != nil {
		p, until = *s.Paid, s.Paid.Until.UTC().Format(time.RFC3339)
	}
	boolean := strconv.FormatBool
	return []field{
		{"account", s.Account}, {"customer", s.Customer}, {"tier", fmt.Sprint(s.Tier)}, {"ended", boolean(s.Ended)},
		{"cancelAtPeriodEnd", boolean(s.CancelAtPeriodEnd)}, {"paidInvoice", p.Invoice}, {"paidUntil", until},
		{"refunded", boolean(p.Refunded)}, {"disputed", boolean(p.Disputed)}, {"failing", boolean(s.Failing)},
	}
}

// Equal reports whether two states have the same id and no differences.
func Equal(a, b State) bool { return a.ID == b.ID && len(Differences(a, b)) == 0 }
