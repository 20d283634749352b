// Package problem implements error responses. All services use it, so all of them have the same
// form.
//
// An Error has a Code of Table, the closed list of codes, and a message for the caller; its cause
// is for logs only. Functions such as Invalid, NoSuch and Unavailable make the usual ones. A Writer
// writes the response for any error: one without a code is an internal_error, whose text only the
// log has.
package problem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// Error is an error with a code of Table. The cause is for logs only.
type Error struct {
	Code Code
	Path string // of the invalid parameter or field, or what was not found, such as account; may be empty
	// what was wrong and what was expected; of an invalid value, without its Path: "must be a day"
	Message    string
	RetryAfter time.Duration // time after which the same request can succeed; 0 if waiting does not help
	Reported   bool          // the log has the cause already, once for all requests that fail because of it

	cause error
}

// Endpoint is the path of a NotFound error for an address without an endpoint.
const Endpoint = "endpoint"

// NoEndpoint is the error for an address without an endpoint.
func NoEndpoint() *Error {
	return &Error{Code: NotFound, Path: Endpoint, Message: "There is nothing at this address."}
}

// NoSuch returns the NotFound error for an unknown id of a kind, such as account.
func NoSuch(kind string) *Error {
	return &Error{Code: NotFound, Path: kind, Message: "There is no " + kind + " with this id."}
}

// Invalid returns the error for an invalid parameter or field. what continues a sentence that
// begins with the path.
func Invalid(path, what string) *Error {
	return &Error{Code: InvalidParameter, Path: path, Message: what}
}

// New returns an Error with a formatted message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Unavailable returns the Error for an outage of a dependency. The caller should retry after a
// second.
func Unavailable(cause error) *Error {
	e := New(ServiceUnavailable, "The service is temporarily unavailable. Retry shortly.")
	return e.Retry(time.Second).Because(cause)
}

// Because returns a copy of e with that cause.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// Retry returns a copy of e with that RetryAfter.
func (e *Error) Retry(after time.Duration) *Error {
	c := *e
	c.RetryAfter = after
	return &c
}

// RetryIn is like Retry and appends the time to the message.
func (e *Error) RetryIn(after time.Duration) *Error {
	c, n, unit := e.Retry(after), seconds(after), "seconds"
	if n == 1 {
		unit = "second"
	}
	c.Message += " Retry in " + strconv.Itoa(n) + " " + unit + "."
	return c
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// Text returns the message as a sentence for consumers.
func (e *Error) Text() string {
	if e.Path == "" || e.Code == NotFound {
		return e.Message
	}
	text := "Parameter " + e.Path + " " + e.Message
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// Error returns the code, the message and the cause. It is for logs, not for consumers.
func (e *Error) Error() string {
	if e.cause == nil {
		return string(e.Code) + ": " + e.Text()
	}
	return string(e.Code) + ": " + e.Text() + ": " + e.cause.Error()
}

func (e *Error) Unwrap() error { return e.cause }

// Of returns the Error in err. If there is none, it returns an InternalError with a fixed message
// and cause err: the text of err may contain hosts or values, so only logs have it.
func Of(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return New(InternalError, "Something went wrong on our side. "+
		"The request does not count toward the limit of the day.").Because(err)
}

// Writer writes error responses. BaseURL is the URL of the documentation, without a trailing slash.
type Writer struct {
	BaseURL string
	Log     *slog.Logger
}

// Write writes the error response for err: the status, the body, Retry-After in whole seconds
// (rounded up), and the headers that the status requires. The body is an api.OperatorError for
// operators, otherwise an api.Error.
func (w Writer) Write(rw http.ResponseWriter, r *http.Request, err error) {
	w.WriteAs(rw, r, err, "application/json", func(e *Error) []byte {
		code, page := string(e.Code), w.BaseURL+"/docs/errors#"+string(e.Code)
		var body any = api.Error{Error: api.ErrorDetail{Code: code, Message: e.Text()}, Documentation: page}
		if strings.HasPrefix(r.URL.Path, "/operator/") {
			body = api.OperatorError{Error: api.Problem{Path: e.Path, Code: code, Message: e.Message},
				Documentation: page}
		}
		text, _ := api.Encode(body) // cannot fail: strings only
		return text
	})
}

// Report logs an error with a status of 500 or more. The level is debug if the caller disconnected,
// which cancels the request, or if the cause is already reported.
func (w Writer) Report(ctx context.Context, err error) {
	e := Of(err)
	if e.Code.Status() < http.StatusInternalServerError || w.Log == nil {
		return
	}
	level := slog.LevelError
	if e.Reported || errors.Is(ctx.Err(), context.Canceled) {
		level = slog.LevelDebug
	}
	w.Log.Log(ctx, level, "request failed", "code", string(e.Code), "error", err.Error())
}

// WriteAs is like Write with a body of another media type, such as a page for people.
func (w Writer) WriteAs(rw http.ResponseWriter, r *http.Request, err error, kind string, render func(*Error) []byte) {
	e := Of(err)
	w.Report(r.Context(), err)
	status := e.Code.Status()
	h := rw.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Encoding", "Link"} {
		delete(h, name)
	}
	h["Content-Type"] = []string{kind}
	h["Cache-Control"] = []string{"no-store"}
	if e.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(seconds(e.RetryAfter))}
	}
	if status == http.StatusUnauthorized {
		h["Www-Authenticate"] = []string{"Bearer"}
	}
	body := render(e)
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	rw.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = rw.Write(body)
	}
}
