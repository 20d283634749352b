// Package notices defines the mails that a person can choose, the rules for those about usage, and the announcements of operators.
package notices

import "time"

// Kind is a kind of notice.
type Kind string

const (
	DayNearlyUsed Kind = "day-80"
	DayUsed       Kind = "day-100"
	MinuteLimit   Kind = "minute-limit"
	KeyExpiry     Kind = "key-expiry"
	PlanRenewal   Kind = "plan-renewal"
	PaymentFailed Kind = "payment-failed"
	APIChange     Kind = "api-change"
)

// Choice is a kind as the person sees it.
type Choice struct {
	Kind    Kind
	Label   string
	Default bool // whether a person who chose nothing gets it
}

// All are the kinds, in the order of the page.
var All = []Choice{
	{DayNearlyUsed, "80 % of the day's requests are used", false},
	{DayUsed, "All requests of the day are used", false},
	{MinuteLimit, "The minute limit was reached repeatedly, at most one email a day", false},
	{KeyExpiry, "A key expires in 30 days, in 7 days and within a day", true},
	{PlanRenewal, "Your plan was renewed", false},
	{PaymentFailed, "A payment for your plan failed", true},
	{APIChange, "The API changes: new features, deprecations and new versions", true},
}

// Default reports whether a person who chose nothing gets the notice.
func (k Kind) Default() bool {
	for _, c := range All {
		if c.Kind == k {
			return c.Default
		}
	}
	return false
}

// MinuteLimitCalls is the number of requests rejected by the minute limit on one day that make a notice.
const MinuteLimitCalls = 10

// Retention is the time for which sent notices are remembered: longer than any event lasts.
const Retention = 40 * 24 * time.Hour

// OfDay returns the notice about the use of a day's quota, of those that are wanted and were not sent yet. It returns "" if none is due.
func OfDay(used, perDay int, due map[Kind]bool) Kind {
	switch {
	case used >= perDay && due[DayUsed]:
		return DayUsed
	case used*100 >= perDay*80 && due[DayNearlyUsed]:
		return DayNearlyUsed
	}
	return ""
}
