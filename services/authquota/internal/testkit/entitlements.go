package testkit

import (
	"time"

	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
)

// Noon is the time from which Minutes counts.
var Noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Minutes returns the time n minutes after Noon.
func Minutes(n int) *time.Time {
	at := Noon.Add(time.Duration(n) * time.Minute)
	return &at
}

// Entitlement draws an entitlement of version 1. What is paid for ends 0 to 9 minutes after Noon.
func Entitlement(t *rapid.T) api.Entitlement {
	tier := rapid.SampledFrom(api.Tiers).Draw(t, "tier").Tier
	e := api.Entitlement{
		Tier: tier, Version: 1, Renews: rapid.Bool().Draw(t, "renews"),
		Trouble: rapid.SampledFrom([]api.Trouble{"", api.PaymentFailed, api.Refunded, api.Disputed}).Draw(t, "trouble"),
	}
	if tier.Rank() > 0 {
		e.PaidUntil = Minutes(rapid.IntRange(0, 9).Draw(t, "until"))
	}
	return e
}
