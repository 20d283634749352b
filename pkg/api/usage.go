package api

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// LoggedRequest is an API request in the request log of its account. It contains no text that the
// caller chose freely: the route is a pattern, and Params has only values that LoggedParams
// accepts.
type LoggedRequest struct {
	ID       string        `json:"id"`               // the X-Request-Id of its response
	Key      string        `json:"key"`              // id of the key
	At       time.Time     `json:"at"`               // when it arrived
	Route    string        `json:"route"`            // such as /api/v1/opportunities/{id}
	Params   string        `json:"params,omitempty"` // in the form of LoggedParams
	Status   int           `json:"status"`
	Code     string        `json:"code,omitempty"` // of the error
	Duration time.Duration `json:"duration"`       // until the end of the response, in nanoseconds
}

// Limits of the request log.
const (
	RequestLogSize     = 1000 // latest requests of a key that are stored, and of an account that are shown
	RequestLogDuration = 7 * 24 * time.Hour
)

// MaxLoggedQuery is the length above which nothing of a query string is logged. It is far above
// that of one with every parameter.
const MaxLoggedQuery = 5000

// loggedParams are the parameters in the request log, with the check of their values. No value is
// free text.
var loggedParams = func() map[string]func(string) bool {
	checks := map[string]func(string) bool{
		"country":            regexp.MustCompile(`^[A-Za-z]{2}$`).MatchString,
		"province":           func(s string) bool { _, ok := ProvinceCode(s); return ok },
		"verified":           isBool,
		"category":           func(s string) bool { return slices.Contains(Categories, Category(s)) },
		"checked_after":      func(s string) bool { _, err := ParseInstant(s); return err == nil && len(s) <= 40 },
		"application_status": func(s string) bool { return slices.Contains(ApplicationStatuses, ApplicationStatus(s)) },
		"pay_unit":           func(s string) bool { return slices.Contains(PayUnits, PayUnit(s)) },
		"after":              func(s string) bool { return s == "now" }, // a cursor is text
		"page":               isNumber,
		"limit":              isNumber,
	}
	for _, fact := range BoolFacts {
		checks[fact.Param] = isBool
	}
	return checks
}()

func isBool(s string) bool { return s == "true" || s == "false" }

func isNumber(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n <= 1_000_000 && strconv.Itoa(n) == s
}

// LoggedParams returns the part of a raw query string that the request log contains: known
// parameters with valid values, sorted by name and encoded as before. It is empty for an overlong
// query string.
func LoggedParams(raw string) string {
	if len(raw) > MaxLoggedQuery {
		return ""
	}
	logged := make([]string, 0, 8)
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if check := loggedParams[name]; err == nil && check != nil && check(value) {
			logged = append(logged, pair)
		}
	}
	slices.Sort(logged)
	return strings.Join(logged, "&")
}
