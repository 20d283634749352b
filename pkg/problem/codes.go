package problem

import "net/http"

// Code tells programs what was wrong. The list is closed: a new code is a change of the contract.
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
	MinuteLimitReached     Code = "minute_limit_reached"
	DailyLimitReached      Code = "daily_limit_reached"
	ServiceCapacityReached Code = "service_capacity_reached"
	ServiceUnavailable     Code = "service_unavailable"
	InternalError          Code = "internal_error"
)

// Entry describes one code to consumers: what it means, and what to do about it.
type Entry struct {
	Code    Code
	Status  int
	Meaning string
	Remedy  string
}

// Table holds every code once, in the order of the documentation, which is made from it.
var Table = []Entry{
	{InvalidParameter, http.StatusBadRequest,
		"A query parameter has a value that is not allowed, or the query string cannot be read.",
		"The message names the parameter and the values that it takes. Correct the value; the same request will fail again."},
	{UnknownParameter, http.StatusBadRequest,
		"A query parameter is not one of this operation. Names are case-sensitive.",
		"Remove the parameter. A key never belongs into the query string: send it in the Authorization header."},
	{DuplicateParameter, http.StatusBadRequest,
		"A query parameter appears more than once, be it with the same value.",
		"Send each parameter once."},
	{BodyNotAllowed, http.StatusBadRequest,
		"The request carries a body. Every operation reads only the address and the headers.",
		"Send no body, and neither Content-Length nor Transfer-Encoding."},
	{MissingAPIKey, http.StatusUnauthorized,
		"There is no usable Authorization header.",
		"Send the header Authorization: Bearer followed by your key."},
	{InvalidAPIKey, http.StatusUnauthorized,
		"The key is malformed or unknown.",
		"Check that the whole key was copied, from the prefix to the last character."},
	{ExpiredAPIKey, http.StatusUnauthorized,
		"The key has reached the end of its life.",
		"Use a new key."},
	{RevokedAPIKey, http.StatusUnauthorized,
		"The key was revoked and stays so.",
		"Use another key of the account, or ask for a new one."},
	{SubscriptionRequired, http.StatusPaymentRequired,
		"The account's tier does not include the verification history.",
		"Get a plan with history on the plan page of your account, /account/plan. If this service sells no plans, write to its operator. " +
			"The request was not charged to your daily quota."},
	{AccountSuspended, http.StatusForbidden,
		"Access of the account is suspended. All its keys are affected.",
		"Write to the operator of the service."},
	{NotFound, http.StatusNotFound,
		"There is nothing at this address: no such path, no such public record, or none within the caller's plan.",
		"Check the path and the id. The free tier reads only the records of its own list."},
	{MethodNotAllowed, http.StatusMethodNotAllowed,
		"The address exists, but not for this method.",
		"Use one of the methods in the Allow header: GET, HEAD or OPTIONS."},
	{MinuteLimitReached, http.StatusTooManyRequests,
		"As many calls were admitted within the last 60 seconds as the tier allows.",
		"Wait for the seconds in Retry-After. The refused call was not counted."},
	{DailyLimitReached, http.StatusTooManyRequests,
		"The account's allowance of this UTC day is used up.",
		"Wait for the seconds in Retry-After, until midnight UTC."},
	{ServiceCapacityReached, http.StatusTooManyRequests,
		"All accounts together have used the capacity of this UTC day. It says nothing about your own allowance.",
		"Wait for the seconds in Retry-After, until midnight UTC."},
	{ServiceUnavailable, http.StatusServiceUnavailable,
		"Something that the service needs is out of reach. The call was not counted against the day.",
		"Wait for the seconds in Retry-After and try again, with growing pauses."},
	{InternalError, http.StatusInternalServerError,
		"The service failed in a way that it did not foresee. The call was not counted against the day.",
		"Try again later. If it stays, report the X-Request-Id of the answer."},
}

var statuses = func() map[Code]int {
	m := make(map[Code]int, len(Table))
	for _, e := range Table {
		m[e.Code] = e.Status
	}
	return m
}()

// Status is the HTTP status of the code. A code outside the Table counts as a failure of ours.
func (c Code) Status() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}
