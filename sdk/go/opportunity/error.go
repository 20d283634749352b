package opportunity

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Codes of errors that do not come from the API.
const (
	CodeConnectionFailed Code = "connection_failed" // no complete response; Error.Unwrap returns the cause
	CodeInvalidResponse  Code = "invalid_response"  // not a response of the API, for example a page of a proxy
)

// Error is a failed call.
type Error struct {
	Status        int           // HTTP status, or 0 if there was no response
	Code          Code          // compare this one; a later version of the API may add codes
	Message       string        // for people; the wording may change
	RequestID     string        // X-Request-Id; include it when you report a problem
	RetryAfter    time.Duration // time after which the same call can succeed, or 0 if not stated
	Documentation string        // URL of the section that explains the code

	cause       error
	unreachable bool // no connection could be opened
}

// Error returns the code, the message, the status and the request id. It never contains the key.
func (e *Error) Error() string {
	text := "opportunity: " + string(e.Code) + ": " + e.Message
	if e.Status != 0 {
		text += fmt.Sprintf(" (status %d, request %s)", e.Status, e.RequestID)
	}
	return text
}

// Unwrap returns the cause of a failed connection.
func (e *Error) Unwrap() error { return e.cause }

// HasCode reports whether err is an Error with that code.
func HasCode(err error, code Code) bool {
	e := new(Error)
	return errors.As(err, &e) && e.Code == code
}

func invalidResponse(r reply, format string, args ...any) *Error {
	return &Error{Status: r.status, Code: CodeInvalidResponse, Message: fmt.Sprintf(format, args...),
		RequestID: r.header.Get("X-Request-Id")}
}

// responseError returns the Error of a response that is not a 200 or 304.
func responseError(r reply, now time.Time) *Error {
	var parsed struct {
		Error struct {
			Code    Code    `json:"code"`
			Message *string `json:"message"`
		} `json:"error"`
		Documentation *string `json:"documentation"`
	}
	e := invalidResponse(r, "the response is not an error of the API")
	if json.Unmarshal(r.body, &parsed) == nil && parsed.Error.Code != "" && parsed.Error.Message != nil &&
		parsed.Documentation != nil {
		e.Code, e.Message, e.Documentation = parsed.Error.Code, *parsed.Error.Message, *parsed.Documentation
	}
	e.RetryAfter = r.retryAfter(now)
	return e
}
