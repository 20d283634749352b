package api

import "slices"

// Tier is an access tier. Its properties are in Tiers; code outside this file never compares a tier
// with a name.
type Tier string

const (
	Free       Tier = "free"
	Developer  Tier = "developer"
	Commercial Tier = "commercial"
)

// BaseTier is the tier of accounts that have no grant and no paid plan.
const BaseTier = Free

// ExampleTier is the tier whose limits and keys appear in examples.
const ExampleTier = Developer

// Limits are the limits of a tier.
type Limits struct {
	PerMinute int  `json:"perMinute"` // admitted calls in any 60 seconds
	PerDay    int  `json:"perDay"`    // admitted calls in one UTC day
	PageSize  int  `json:"pageSize"`  // maximum records per page; a larger `limit` is reduced to it
	History   bool `json:"history"`   // access to the verification history
}

// TierInfo describes a tier.
type TierInfo struct {
	Tier       Tier
	Limits     Limits // defaults: OPPORTUNITY_TIERS of authquota overrides the figures
	AllRecords bool   // access to all published records; otherwise to the free set only
	Name       string // of the plan on offer that includes the tier; empty if only operators grant it
	MonthlyUSD int    // price of the plan; 0 if it is free of charge
}

// Tiers is the tier table, lowest tier first. It is the only source of the properties of tiers, and
// of plan names and prices.
var Tiers = []TierInfo{
	{Tier: Free, Limits: Limits{PerMinute: 10, PerDay: 100, PageSize: 10}, Name: "Free"},
	{Tier: Developer, Limits: Limits{PerMinute: 60, PerDay: 1000, PageSize: 50, History: true}, AllRecords: true},
	{Tier: Commercial, Limits: Limits{PerMinute: 300, PerDay: 10000, PageSize: 100, History: true}, AllRecords: true,
		Name: "Business", MonthlyUSD: 29},
}

// ServiceCapacity limits the calls of all accounts together in one UTC day.
const ServiceCapacity = 50000

// Rank returns the position of the tier in Tiers, and -1 for an unknown tier. A higher tier has a
// higher rank.
func (t Tier) Rank() int {
	return slices.IndexFunc(Tiers, func(info TierInfo) bool { return info.Tier == t })
}

// AllRecords reports whether the tier has access to all published records. An unknown tier has not.
func (t Tier) AllRecords() bool {
	rank := t.Rank()
	return rank >= 0 && Tiers[rank].AllRecords
}

// TierLimits pairs a tier with its limits.
type TierLimits struct {
	Tier   Tier   `json:"tier"`
	Limits Limits `json:"limits"`
}

// SharedSettings are the settings of authquota that its gateways share or follow.
type SharedSettings struct {
	Tiers        []TierLimits `json:"tiers"`
	Peppers      []string     `json:"peppers"` // apikey.Fingerprints, newest first
	OlderKeys    string       `json:"olderKeys"`
	TermsVersion string       `json:"termsVersion"`
}

// DefaultLimits returns the limits of all tiers without overrides, in the order of Tiers. The
// gateway fetches the limits in effect from authquota for the documentation that it serves.
func DefaultLimits() []TierLimits {
	limits := make([]TierLimits, len(Tiers))
	for i, info := range Tiers {
		limits[i] = TierLimits{info.Tier, info.Limits}
	}
	return limits
}

// Plans lists the tiers with a plan on offer, lowest tier first.
var Plans = slices.DeleteFunc(slices.Clone(Tiers), func(t TierInfo) bool { return t.Name == "" })

// SoldPlan returns the plan that billing sells: the only one with a price.
func SoldPlan() TierInfo { return planWith(func(t TierInfo) bool { return t.MonthlyUSD > 0 }) }

// HistoryPlan returns the lowest plan whose tier includes the verification history.
func HistoryPlan() TierInfo { return planWith(func(t TierInfo) bool { return t.Limits.History }) }

// AllRecordsPlan returns the lowest plan whose tier includes all records, and their changes.
func AllRecordsPlan() TierInfo { return planWith(func(t TierInfo) bool { return t.AllRecords }) }

// planWith panics if there is no such plan. Tiers is constant, and a test calls each function.
func planWith(property func(TierInfo) bool) TierInfo { return Plans[slices.IndexFunc(Plans, property)] }

// PlanOf returns the plan that includes tier t, and false if there is none.
func PlanOf(t Tier) (TierInfo, bool) {
	rank := t.Rank()
	if rank < 0 || Tiers[rank].Name == "" {
		return TierInfo{}, false
	}
	return Tiers[rank], true
}

// TermsVersion is the version of the terms of use in this release: their date. An operator who
// publishes other terms configures another version.
const TermsVersion = "2026-11-22"

// UsageRight sums up the terms in this release. Pages and documents state it in these words only.
const UsageRight = "You may use the data in your own products and show it to their users. " +
	"No plan includes the right to redistribute it."
