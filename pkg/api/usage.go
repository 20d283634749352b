package api

import (
	"slices"
	"time"
)

// CallOutcome is the outcome of a call with a known key, as shown to the key's owner.
type CallOutcome string

const (
	CallServed                 CallOutcome = "served"    // 200 and 304
	CallNotFound               CallOutcome = "not_found" // no such published record; charged
	CallBadRequest             CallOutcome = "bad_request"
	CallSubscriptionRequired   CallOutcome = "subscription_required"
	CallAccountSuspended       CallOutcome = "account_suspended"
	CallExpiredAPIKey          CallOutcome = "expired_api_key"
	CallRevokedAPIKey          CallOutcome = "revoked_api_key"
	CallMinuteLimitReached     CallOutcome = "minute_limit_reached"
	CallDailyLimitReached      CallOutcome = "daily_limit_reached"
	CallServiceCapacityReached CallOutcome = "service_capacity_reached"
	CallFailed                 CallOutcome = "failed" // server error, or the caller disconnected before the response
)

// CallOutcomes lists all outcomes in the order of the pages.
var CallOutcomes = []CallOutcome{
	CallServed, CallNotFound, CallBadRequest, CallSubscriptionRequired, CallAccountSuspended, CallExpiredAPIKey,
	CallRevokedAPIKey,
	CallMinuteLimitReached, CallDailyLimitReached, CallServiceCapacityReached, CallFailed,
}

// Known reports whether o is one of CallOutcomes.
func (o CallOutcome) Known() bool { return slices.Contains(CallOutcomes, o) }

// Charged reports whether calls with this outcome count against the daily quota.
func (o CallOutcome) Charged() bool { return o == CallServed || o == CallNotFound }

// UsageCount counts the calls of one key with one outcome on one UTC day, as seen by one gateway.
// It is for statistics only: quotas are enforced by the counters in Redis.
type UsageCount struct {
	Day     string      `json:"day"` // 2026-11-20
	Key     string      `json:"key"` // id of the key
	Outcome CallOutcome `json:"outcome"`
	Calls   int         `json:"calls"`
	LastAt  time.Time   `json:"lastAt"` // time of the latest of these calls
}

// UsageBatch has calls that a gateway reports to authquota: their counts, and the newest of them
// for the request logs. The gateway resends it unchanged until authquota accepts it; authquota
// counts it once.
type UsageBatch struct {
	ID       string          `json:"id"` // UUIDv7
	Counts   []UsageCount    `json:"counts"`
	Requests []LoggedRequest `json:"requests"`
}

// Limits of a usage batch, in entries.
const (
	MaxUsageCounts   = 5000
	MaxUsageRequests = 1000
)

// DayServed counts the calls of one UTC day that were not rejected, and those of them that failed.
// The calls are those of all accounts. A caller that disconnects before the response counts as a
// failure.
type DayServed struct {
	Day    string `json:"day"` // 2026-11-20
	Calls  int    `json:"calls"`
	Failed int    `json:"failed"`
}

// ServedDays is the number of days that the status page shows.
const ServedDays = 90
