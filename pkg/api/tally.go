package api

import (
	"slices"
	"time"
)

// CallOutcome is how a call of a known key ended, as its owner is told.
type CallOutcome string

const (
	CallServed                 CallOutcome = "served"    // 200 and 304
	CallNotFound               CallOutcome = "not_found" // no such public record: charged as served ones are
	CallBadRequest             CallOutcome = "bad_request"
	CallSubscriptionRequired   CallOutcome = "subscription_required"
	CallAccountSuspended       CallOutcome = "account_suspended"
	CallExpiredAPIKey          CallOutcome = "expired_api_key"
	CallRevokedAPIKey          CallOutcome = "revoked_api_key"
	CallMinuteLimitReached     CallOutcome = "minute_limit_reached"
	CallDailyLimitReached      CallOutcome = "daily_limit_reached"
	CallServiceCapacityReached CallOutcome = "service_capacity_reached"
	CallFailed                 CallOutcome = "failed" // by a fault of ours, or its caller left before the answer was there
)

// CallOutcomes is every outcome, in the order in which pages list them.
var CallOutcomes = []CallOutcome{
	CallServed, CallNotFound, CallBadRequest, CallSubscriptionRequired, CallAccountSuspended, CallExpiredAPIKey, CallRevokedAPIKey,
	CallMinuteLimitReached, CallDailyLimitReached, CallServiceCapacityReached, CallFailed,
}

// Known reports whether o is one of CallOutcomes.
func (o CallOutcome) Known() bool { return slices.Contains(CallOutcomes, o) }

// Charged reports whether calls that ended so are held against the allowance of the day.
func (o CallOutcome) Charged() bool { return o == CallServed || o == CallNotFound }

// Tally is how many calls of one key ended in one way on one UTC day, as one gateway saw them. Tallies are statistics: what an
// account may still do is decided by the counters, and by them alone.
type Tally struct {
	Day     string      `json:"day"` // 2026-11-20
	Key     string      `json:"key"` // id of the key
	Outcome CallOutcome `json:"outcome"`
	Calls   int         `json:"calls"`
	LastAt  time.Time   `json:"lastAt"` // of the last of these calls
}

// TallyBatch is what a gateway sends authquota to be added up. It is sent again, unchanged, until it is accepted, and counts once.
type TallyBatch struct {
	ID      string  `json:"id"` // UUIDv7
	Tallies []Tally `json:"tallies"`
}

// MaxTallies is how many tallies a batch may hold.
const MaxTallies = 5000
