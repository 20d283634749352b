package problem

import "net/http"

// Code identifies an error for programs. The list is closed: a new code changes the contract.
type Code string

const (
	InvalidParameter       Code = "invalid_parameter"
	UnknownParameter       Code = "unknown_parameter"
	DuplicateParameter     Code = "duplicate_parameter"
	BodyNotAllowed         Code = "body_not_allowed"
	MissingAPIKey          Code = "missing_api_key"
	InvalidAPIKey          Code = "invalid_api_key"
	ExpiredAPIKey          Code = "expired_api_key"
	RevokedAPIKey          Code = "revoked_api_key"
	SubscriptionRequired   Code = "subscription_required"
	AccountSuspended       Code = "account_suspended"
	NotFound               Code = "not_found"
	MethodNotAllowed       Code = "method_not_allowed"
	CursorExpired          Code = "cursor_expired"
	MinuteLimitReached     Code = "minute_limit_reached"
	DailyLimitReached      Code = "daily_limit_reached"
	ServiceCapacityReached Code = "service_capacity_reached"
	ServiceUnavailable     Code = "service_unavailable"
	InternalError          Code = "internal_error"
)

// Entry documents one code for consumers.
type Entry struct {
	Code    Code
	Status  int
	Meaning string
	Remedy  string
}

// Table holds every code once. The error page is generated from it, in this order.
var Table = []Entry{
	{InvalidParameter, http.StatusBadRequest,
		"A query parameter has an invalid value, or the query string cannot be parsed.",
		"The message names the parameter and the allowed values. Correct the value; the same request will fail again."},
	{UnknownParameter, http.StatusBadRequest,
		"This endpoint does not support the query parameter. Names are case-sensitive.",
		"Remove the parameter. Never put a key in the query string: send it in the Authorization header."},
	{DuplicateParameter, http.StatusBadRequest,
		"A query parameter appears more than once, even if the values are equal.",
		"Send each parameter once."},
	{BodyNotAllowed, http.StatusBadRequest,
		"The request has a body. Endpoints read only the URL and the headers.",
		"Remove the body and the headers Content-Length and Transfer-Encoding."},
	{MissingAPIKey, http.StatusUnauthorized,
		"The Authorization header is missing or unusable.",
		"Send the header Authorization: Bearer followed by your key."},
	{InvalidAPIKey, http.StatusUnauthorized,
		"The key is malformed or unknown.",
		"Check that the whole key was copied, from the prefix to the last character."},
	{ExpiredAPIKey, http.StatusUnauthorized,
		"The key has expired.",
		"Use another key of the account, or request a new one. Rotate keys before they expire."},
	{RevokedAPIKey, http.StatusUnauthorized,
		"The key was revoked permanently.",
		"Use another key of the account, or request a new one."},
	{SubscriptionRequired, http.StatusPaymentRequired,
		"The account's tier does not include the verification history or the changes.",
		"Get a plan that does on the plan page of your account, /account/plan. If this service sells no plans, contact its " +
			"operator. " +
			"The request was not charged to your daily quota."},
	{AccountSuspended, http.StatusForbidden,
		"The account and all its keys are suspended.",
		"Contact the operator of the service."},
	{NotFound, http.StatusNotFound,
		"The path does not exist, or the record does not exist, is not public, or is not included in your plan.",
		"Check the path and the id. The free tier can read only the records of the free set."},
	{MethodNotAllowed, http.StatusMethodNotAllowed,
		"The path exists but does not support this method.",
		"Use one of the methods in the Allow header: GET, HEAD or OPTIONS."},
	{CursorExpired, http.StatusGone,
		"Changes after the cursor can no longer be read: they are older than 90 days, or a restore of our database lost " +
			"the cursor's change.",
		"Walk again: request /api/v1/changes?after=now for a new cursor, then read all records. The request was not " +
			"charged to the day."},
	{MinuteLimitReached, http.StatusTooManyRequests,
		"The account has used its limit of requests in 60 seconds. Without a key: too many requests came from the network, " +
			"or from all.",
		"Wait for the number of seconds in Retry-After. The rejected request was not charged."},
	{DailyLimitReached, http.StatusTooManyRequests,
		"The account has used its daily quota for this UTC day.",
		"Wait for the number of seconds in Retry-After, until midnight UTC."},
	{ServiceCapacityReached, http.StatusTooManyRequests,
		"All accounts together have used the shared capacity of this UTC day. Your own quota may not be used up.",
		"Wait for the number of seconds in Retry-After, until midnight UTC."},
	{ServiceUnavailable, http.StatusServiceUnavailable,
		"A part of the service is unavailable. The request was not charged to the day.",
		"Wait for the number of seconds in Retry-After, then retry with exponential backoff."},
	{InternalError, http.StatusInternalServerError,
		"An unexpected failure on our side. The request was not charged to the day.",
		"Retry later. If the error persists, report the X-Request-Id header of the response."},
}

// Status returns the HTTP status of the code, or 500 for a code that is not in Table.
func (c Code) Status() int {
	for _, e := range Table {
		if e.Code == c {
			return e.Status
		}
	}
	return http.StatusInternalServerError
}
