// Package problem is how a request fails: a closed table of codes, an error that carries one of them, and the one writer of
// error bodies. Every service answers errors through it, so a consumer meets one shape everywhere.
package problem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
)

// Error is a refusal or a failure with a code of the Table. Message is for the consumer: it names what was wrong and what was
// expected. The cause is for the log alone.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // how long to wait before the same request can succeed; 0 where waiting does not help

	cause error
}

// New makes an Error whose message is formatted for the consumer.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Unavailable is the answer to an outage of something that the service needs: retry in a second.
func Unavailable(cause error) *Error {
	return New(ServiceUnavailable, "The service is temporarily unavailable. Try again shortly.").Retry(time.Second).Because(cause)
}

// Because returns a copy that carries the cause into the log.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// Retry returns a copy that tells the caller how long to wait.
func (e *Error) Retry(after time.Duration) *Error {
	c := *e
	c.RetryAfter = after
	return &c
}

// RetryIn is Retry that also states the wait in the message.
func (e *Error) RetryIn(after time.Duration) *Error {
	c, n, unit := e.Retry(after), seconds(after), "seconds"
	if n == 1 {
		unit = "second"
	}
	c.Message += fmt.Sprintf(" Retry in %d %s.", n, unit)
	return c
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// Error includes the cause; it is never what a consumer sees.
func (e *Error) Error() string {
	if e.cause == nil {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Message + ": " + e.cause.Error()
}

func (e *Error) Unwrap() error { return e.cause }

// Of finds the Error in err. An error from elsewhere becomes an InternalError with a fixed sentence: its own text may name
// drivers, hosts or values, so it stays in the log.
func Of(err error) *Error {
	if e := new(Error); errors.As(err, &e) {
		return e
	}
	return New(InternalError, "Something went wrong on our side. The request was not counted.").Because(err)
}

// Writer writes every error answer. BaseURL is where the documentation is served, without a trailing slash.
type Writer struct {
	BaseURL string
	Log     *slog.Logger
}

// Write answers r with err. It sets the status, the body of the specification, Retry-After in whole seconds rounded up, and
// what the status itself demands.
func (w Writer) Write(rw http.ResponseWriter, r *http.Request, err error) {
	w.WriteAs(rw, r, err, "application/json", func(e *Error) []byte {
		return encode(api.Error{
			Error:         api.ErrorDetail{Code: string(e.Code), Message: e.Message},
			Documentation: w.BaseURL + "/docs/errors#" + string(e.Code),
		})
	})
}

// WriteAs is Write with a body of another media type, for readers who are no programs.
func (w Writer) WriteAs(rw http.ResponseWriter, r *http.Request, err error, kind string, render func(*Error) []byte) {
	e := Of(err)
	status := e.Code.Status()
	if status >= http.StatusInternalServerError && w.Log != nil {
		level := slog.LevelError
		if errors.Is(r.Context().Err(), context.Canceled) {
			level = slog.LevelDebug // the caller has gone, which fails whatever was under way and is no fault of ours
		}
		w.Log.Log(r.Context(), level, "request failed", "code", string(e.Code), "error", err.Error())
	}
	h := rw.Header()
	for _, name := range []string{"ETag", "Last-Modified", "Content-Encoding", "Link"} {
		h.Del(name)
	}
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds(e.RetryAfter)))
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := render(e)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	rw.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = rw.Write(body)
	}
}

// encode writes < and > as they are: messages are read by people, and no browser takes the answer for a page.
func encode(body api.Error) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // strings only: it cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
