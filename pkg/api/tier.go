package api

// Tier is an access tier.
type Tier string

const (
	Free       Tier = "free"
	Developer  Tier = "developer"
	Commercial Tier = "commercial"
)

// Limits are the limits of a tier.
type Limits struct {
	PerMinute int  `json:"perMinute"` // admitted calls in any 60 seconds
	PerDay    int  `json:"perDay"`    // admitted calls in one UTC day
	PageSize  int  `json:"pageSize"`  // maximum records per page; a larger `limit` is reduced to it
	History   bool `json:"history"`   // access to the verification history
}

// TierLimits pairs a tier with its limits.
type TierLimits struct {
	Tier   Tier   `json:"tier"`
	Limits Limits `json:"limits"`
}

// Tiers is the default tier table. OPPORTUNITY_TIERS of authquota overrides its figures; the gateway fetches the table in effect
// from authquota for the documentation that it serves.
var Tiers = []TierLimits{
	{Free, Limits{PerMinute: 10, PerDay: 100, PageSize: 10, History: false}},
	{Developer, Limits{PerMinute: 60, PerDay: 1000, PageSize: 50, History: true}},
	{Commercial, Limits{PerMinute: 300, PerDay: 10000, PageSize: 100, History: true}},
}

// ServiceCapacity limits the calls of all accounts together in one UTC day.
const ServiceCapacity = 50000
