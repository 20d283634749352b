package edge

import (
	"cmp"
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
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docsite"
	"opportunity.internal/services/gateway/internal/proxy"
)

// exchange is one request on its way through the steps of its route.
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

// authenticate resolves the key of a call and stores its principal, also with some errors. A call
// that another request makes can bring its key in the context instead.
func (e *Edge) authenticate(x *exchange) (err error) {
	key, given := x.Request.Context().Value(keyOfCall{}).(authn.Key)
	if !given {
		if key, err = authn.Read(x.Request.Header["Authorization"], e.OlderKeys); err != nil {
			return err
		}
	}
	x.key = key
	return e.resolve(x)
}

// keyOfCall is the context key of the API key of a call that another request makes. The call runs
// through the engine, as any other, and the engine passes only an HTTP request to its steps.
type keyOfCall struct{}

func (e *Edge) resolve(x *exchange) error {
	p, err := e.Keys.Resolve(x.Request.Context(), x.key)
	if p != nil {
		x.caller = p
	}
	return fromService(err)
}

// admit charges a call to the account of its principal, runs the further steps, and refunds the
// charge unless they keep it.
func (e *Edge) admit(x *exchange) error {
	if err := e.decide(x); err != nil {
		return err
	}
	if x.charge.Verdict == admission.Rejected {
		x.charge.SetHeaders(x.Writer.Header())
		return x.charge.Problem()
	}
	defer e.settle(x, false) // after an error or a panic
	x.Next()
	return nil
}

// maxAttempts bounds how often one request resolves its key. A third attempt requires two changes
// of the account in between.
const maxAttempts = 3

// decide stores the decision of the limiter on a call. If the limiter finds the cached principal
// outdated, or another Redis has decided than the one of its epoch, the key is resolved again. So a
// change at authquota applies to the next request, also if a failover of Redis has undone its
// epoch.
func (e *Edge) decide(x *exchange) error {
	ctx := x.Request.Context()
	for attempt := range maxAttempts {
		if attempt > 0 {
			if err := e.resolve(x); err != nil {
				return err
			}
		}
		p := x.caller
		if p.Suspended {
			current, err := e.Limiter.Current(ctx, p.Principal)
			if err != nil {
				e.meters.decided(admission.Decision{}, err, p.Tier)
				return err
			}
			if current && e.Keys.InTerm(p) {
				e.meters.decided(admission.Decision{Verdict: suspended}, nil, p.Tier)
				return problem.New(problem.AccountSuspended, "This account is suspended. Contact the operator of the service.")
			}
			e.Keys.Forget(p)
			continue
		}
		charge, err := e.Limiter.Admit(ctx, p.Principal)
		e.meters.decided(charge, err, p.Tier)
		if err != nil {
			return err
		}
		if e.Keys.InTerm(p) && charge.Verdict != admission.Outdated {
			x.charge = charge
			return nil
		}
		if charge.Verdict == admission.Admitted {
			x.charge = charge
			e.refund(x)
			x.charge = admission.Decision{}
		}
		e.Keys.Forget(p)
	}
	return problem.Unavailable(fmt.Errorf("principal outdated after %d attempts: account keeps changing", maxAttempts))
}

func forward(service *proxy.Service) step {
	return func(x *exchange) error { return x.take(service.Forward(x.Request, x.path, x.caller.Caller)) }
}

// take keeps the response of a service for the last step.
func (x *exchange) take(response proxy.Response, err error) error {
	x.response = response
	return fromService(err)
}

func fromService(err error) error {
	if err != nil {
		return upstream{err}
	}
	return nil
}

func (e *Edge) respond(x *exchange) error {
	x.status = x.response.StatusCode
	x.code = results[x.status].code
	if x.status == http.StatusBadRequest && x.caller != nil {
		x.code = x.response.ErrorCode()
	}
	if isCharged(x.status) {
		if x.charge.Verdict == admission.Admitted {
			x.charge.SetHeaders(x.Writer.Header())
		}
	} else {
		e.settle(x, false)
	}
	err := x.response.Write(x.Writer)
	if err == nil || errors.Is(err, context.Canceled) { // a client that disconnected may have most of the response
		e.settle(x, true)
	}
	return fromService(err)
}

// settle ends the charge of an admitted call, once: it keeps it, or refunds it and shows that in
// the headers.
func (e *Edge) settle(x *exchange, keep bool) {
	if x.charge.Verdict != admission.Admitted || x.settled {
		return
	}
	x.settled = true
	if !keep {
		e.refund(x)
		x.charge.SetHeaders(x.Writer.Header())
	}
}

// results has the statuses that are not a failure of the service.
var results = map[int]struct {
	outcome api.CallOutcome
	charged bool
	code    problem.Code // of every error with the status; empty if there are several
}{
	http.StatusOK:              {api.CallServed, true, ""},
	http.StatusNotModified:     {api.CallServed, true, ""},
	http.StatusNotFound:        {api.CallNotFound, true, problem.NotFound},
	http.StatusBadRequest:      {api.CallBadRequest, false, ""},
	http.StatusGone:            {api.CallBadRequest, false, problem.CursorExpired},
	http.StatusPaymentRequired: {api.CallSubscriptionRequired, false, problem.SubscriptionRequired},
}

func isCharged(status int) bool { return results[status].charged }

func (e *Edge) refund(x *exchange) {
	ctx := x.Request.Context()
	if err := e.Limiter.Refund(ctx, x.caller.Account, &x.charge); err != nil {
		e.Telemetry.Log.WarnContext(ctx, "charge refund failed", "account_id", x.caller.Account, "error", err.Error())
	}
}

// statusDisconnected is logged for a call whose client disconnected before it had the whole
// response.
const statusDisconnected = 499

func (e *Edge) record(x *exchange, err error) {
	if x.caller == nil {
		return
	}
	now, took, status, code, outcome := e.Now(), time.Since(x.since), x.status, x.code, callOutcome(x.status, err)
	if err != nil {
		code = problem.Of(err).Code
		status = code.Status()
	}
	if errors.Is(err, context.Canceled) {
		status = statusDisconnected
	}
	at := x.charge.Clock
	if at.IsZero() { // nothing was charged
		at = now
	}
	e.Usage.Record(api.LoggedRequest{
		ID: telemetry.RequestID(x.Request.Context()), Key: x.caller.Key, At: now.Add(-took), Route: string(x.operation),
		Params: x.Request.URL.RawQuery, Status: status, Code: string(code), Duration: took,
	}, outcome, at)
}

// callOutcome classifies a call by the status of its response, if the service has sent one, or by
// its error.
func callOutcome(status int, err error) api.CallOutcome {
	if err == nil || errors.Is(err, proxy.ErrTruncated) && errors.Is(err, context.Canceled) {
		return cmp.Or(results[status].outcome, api.CallFailed)
	}
	switch code := problem.Of(err).Code; code {
	case problem.ExpiredAPIKey, problem.RevokedAPIKey, problem.AccountSuspended,
		problem.MinuteLimitReached, problem.DailyLimitReached, problem.ServiceCapacityReached:
		return api.CallOutcome(code)
	case problem.BodyNotAllowed:
		return api.CallBadRequest
	}
	return api.CallFailed
}

type upstream struct{ error }

func (u upstream) Unwrap() error { return u.error }

func outcomeOf(status int, err error) string {
	_, fault := errors.AsType[upstream](err)
	switch {
	case errors.Is(err, context.Canceled):
		return rejected
	case err == nil && status < http.StatusBadRequest:
		return served
	case err == nil && status >= http.StatusInternalServerError:
		return upstreamFault // the service sent an error page
	case err == nil, problem.Of(err).Code.Status() < http.StatusInternalServerError:
		return rejected
	case fault:
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
