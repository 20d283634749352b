package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/proxy"
)

type exchange struct {
	*gin.Context

	operation operation
	path      string // for the service, escaped
	since     time.Time
	status    int            // of the response
	outcome   string         // for the metrics, of a request that has ended
	response  proxy.Response // of a service, for the last step to write

	// Of calls.
	key     authn.Key
	caller  *authn.Principal // nil until the key is resolved
	charge  admission.Decision
	settled bool         // the charge is kept or refunded
	code    problem.Code // of an error response
}

const exchangeKey = "exchange"

// step does a part of an exchange. After an error, or if it has ended the exchange, no further step
// runs.
type step func(x *exchange) error

func (s step) run(c *gin.Context) {
	x, _ := c.MustGet(exchangeKey).(*exchange) // set by observe
	if err := s(x); err != nil {
		_ = c.Error(err)
		c.Abort()
	}
}

func (x *exchange) end(status int) {
	x.status = status
	x.Writer.WriteHeader(status)
	x.Abort()
}

func (x *exchange) write(status int, kind, cache string, body []byte) {
	h := x.Writer.Header()
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	h.Set("Cache-Control", cache)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.end(status)
	_, _ = x.Writer.Write(body) // the client disconnected
}

func (x *exchange) tier() api.Tier {
	if x.caller == nil {
		return noTier
	}
	return x.caller.Tier
}

// observe returns the step that runs the others and turns their errors and panics into responses.
// It records the request in metrics, and a call in the usage of its key.
func (e *Edge) observe(o operation) gin.HandlerFunc {
	return func(c *gin.Context) {
		x := &exchange{Context: c, operation: o, since: time.Now(), status: http.StatusOK}
		c.Set(exchangeKey, x)
		defer func() {
			e.meters.observe(x)
			if strings.HasPrefix(string(x.operation), "/api/") && x.outcome != rejected {
				e.Pages.Count(x.outcome != served, time.Since(x.since))
			}
		}()
		err := next(c)
		if x.outcome = outcomeOf(x.status, err); errors.Is(c.Request.Context().Err(), context.Canceled) {
			x.outcome = rejected
		}
		e.record(x, err)
		switch {
		case err == nil:
		case errors.Is(err, proxy.ErrTruncated): // abort, so that the client does not take a truncated body for the whole
			panic(http.ErrAbortHandler)
		case c.Writer.Written():
			e.Errors.Report(c.Request.Context(), err)
			panic(http.ErrAbortHandler)
		default:
			e.writeError(c.Writer, c.Request, err)
		}
	}
}

func next(c *gin.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c.Abort() // otherwise gin goes on with the next step
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	c.Next()
	if last := c.Errors.Last(); last != nil {
		return last.Err
	}
	return nil
}

type upstream struct{ error }

func (u upstream) Unwrap() error { return u.error }

func outcomeOf(status int, err error) string {
	var fault upstream
	switch {
	case errors.Is(err, context.Canceled):
		return rejected
	case err == nil && status < http.StatusBadRequest:
		return served
	case err == nil && status >= http.StatusInternalServerError:
		return upstreamFault // the service sent an error page
	case err == nil, problem.Of(err).Code.Status() < http.StatusInternalServerError:
		return rejected
	case errors.As(err, &fault):
		return upstreamFault
	}
	return ourFault
}

// writeError writes err as a page for browsers, which accept text/html, and as the JSON of the API
// contract otherwise. Paths under /api always get JSON.
func (e *Edge) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, "/api/") || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		if isPage(r.URL.Path) {
			w.Header().Set("X-Content-Type-Options", "nosniff") // a browser must not render JSON as a page
		}
		e.Errors.Write(w, r, err)
		return
	}
	docsite.Protect(w.Header())
	e.Errors.WriteAs(w, r, err, "text/html; charset=utf-8", e.Pages.ErrorPage)
}
