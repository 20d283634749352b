package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/proxy"
)

// call holds the state of one API call.
type call struct {
	end     *observation
	caller  *authn.Principal // nil until the key is resolved
	charge  admission.Decision
	settled bool // the charge is kept or refunded
	outcome api.CallOutcome
	status  int
	code    problem.Code // of an error
}

// call returns the handler of API calls that service serves.
func (e *Edge) call(service *proxy.Service) handler {
	return func(w http.ResponseWriter, r *http.Request, to target, end *observation) (int, error) {
		key, err := authn.Read(r.Header["Authorization"], e.OlderKeys)
		if err != nil {
			return 0, err
		}
		return e.callWith(key, service)(w, r, to, end)
	}
}

// statusDisconnected is logged for a call whose client disconnected before it had the whole response.
const statusDisconnected = 499

// callWith returns the handler of calls with a key, whatever their header says.
func (e *Edge) callWith(key authn.Key, service *proxy.Service) handler {
	return func(w http.ResponseWriter, r *http.Request, to target, end *observation) (int, error) {
		c := call{end: end, outcome: api.CallFailed, status: http.StatusInternalServerError, code: problem.InternalError} // after a panic
		defer e.record(r, to, &c)
		status, err := e.steps(w, r, to, key, service, &c)
		c.outcome, c.status = outcome(status, err), status
		if err != nil {
			c.code = problem.Of(err).Code
			c.status = c.code.Status()
		}
		if errors.Is(err, context.Canceled) {
			c.status = statusDisconnected
		}
		return status, err
	}
}

// steps serves a call in these steps: authenticate the key, admit the call and charge it to the account, forward it to the service, settle
// the charge by its response, and write that.
func (e *Edge) steps(w http.ResponseWriter, r *http.Request, to target, key authn.Key, service *proxy.Service, c *call) (int, error) {
	defer e.settle(w, r, c, false) // after an error or a panic
	if err := e.authenticate(r, key, c); err != nil {
		return 0, err
	}
	if err := e.admit(r, key, c); err != nil {
		return 0, err
	}
	if c.charge.Verdict == admission.Rejected {
		c.charge.SetHeaders(w.Header())
		return 0, c.charge.Problem()
	}
	if err := rejectBody(w, r); err != nil {
		return 0, err
	}
	response, err := service.Forward(r, to.path, c.caller.Caller)
	if err != nil {
		return 0, upstream{err}
	}
	code := errorCode(response)
	if isCharged(response.StatusCode) {
		c.charge.SetHeaders(w.Header())
	} else {
		e.settle(w, r, c, false)
	}
	err = response.Write(w)
	if err != nil && !errors.Is(err, context.Canceled) {
		return 0, upstream{err}
	}
	e.settle(w, r, c, true) // also if the client disconnected: it may have most of the response
	c.code = code
	return response.StatusCode, err
}

// maxAttempts bounds how often one request resolves its key. A third attempt requires two changes of the account in between.
const maxAttempts = 3

// authenticate resolves the key and stores its principal in c, also with some errors.
func (e *Edge) authenticate(r *http.Request, key authn.Key, c *call) error {
	p, err := e.Keys.Resolve(r.Context(), key, e.client(r))
	if p != nil {
		c.caller, c.end.tier = p, p.Tier
	}
	if err != nil {
		return upstream{err}
	}
	return nil
}

// admit asks the limiter for a decision on a call of the principal in c, and stores it in c. If the limiter finds the cached principal
// outdated, or another Redis has decided than the one of its epoch, admit resolves the key again. So a change at authquota applies to the
// next request, also if a failover of Redis has undone its epoch.
func (e *Edge) admit(r *http.Request, key authn.Key, c *call) error {
	ctx := r.Context()
	for attempt := range maxAttempts {
		if attempt > 0 {
			if err := e.authenticate(r, key, c); err != nil {
				return err
			}
		}
		p := c.caller
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
			c.charge = charge
			return nil
		}
		if charge.Verdict == admission.Admitted {
			c.charge = charge
			e.refund(r, c)
			c.charge = admission.Decision{}
		}
		e.Keys.Forget(p)
	}
	return problem.Unavailable(fmt.Errorf("principal outdated after %d attempts: account keeps changing", maxAttempts))
}

// settle ends the charge of an admitted call, once: it keeps it, or refunds it and shows that in the headers.
func (e *Edge) settle(w http.ResponseWriter, r *http.Request, c *call, keep bool) {
	if c.charge.Verdict != admission.Admitted || c.settled {
		return
	}
	c.settled = true
	if !keep {
		e.refund(r, c)
		c.charge.SetHeaders(w.Header())
	}
}

// isCharged reports whether a response with this status counts against the quota.
func isCharged(status int) bool {
	return status == http.StatusOK || status == http.StatusNotModified || status == http.StatusNotFound
}

func (e *Edge) refund(r *http.Request, c *call) {
	if err := e.Limiter.Refund(r.Context(), c.caller.Account, &c.charge); err != nil {
		e.Telemetry.Log.WarnContext(r.Context(), "charge refund failed", "account_id", c.caller.Account, "error", err.Error())
	}
}

// errorCode returns the code of a response, or "" without an error. Only a 400 can have several codes.
func errorCode(response proxy.Response) problem.Code {
	switch response.StatusCode {
	case http.StatusBadRequest:
		return response.ErrorCode()
	case http.StatusPaymentRequired:
		return problem.SubscriptionRequired
	case http.StatusNotFound:
		return problem.NotFound
	case http.StatusGone:
		return problem.CursorExpired
	}
	return ""
}

// record adds the call to its key's usage for the day it was charged to, and to the request log.
func (e *Edge) record(r *http.Request, to target, c *call) {
	if c.caller == nil {
		return
	}
	now, took := e.Now(), time.Since(c.end.since)
	at := c.charge.Clock
	if at.IsZero() { // nothing was charged
		at = now
	}
	e.Usage.Record(api.LoggedRequest{
		ID: telemetry.RequestID(r.Context()), Key: c.caller.Key, At: now.Add(-took), Route: string(to.operation), Params: r.URL.RawQuery,
		Status: c.status, Code: string(c.code), Duration: took,
	}, c.outcome, at)
}

// outcome classifies a call by the status of its response, if the service has sent one, or by its error.
func outcome(status int, err error) api.CallOutcome {
	if status != 0 {
		switch status {
		case http.StatusOK, http.StatusNotModified:
			return api.CallServed
		case http.StatusNotFound:
			return api.CallNotFound
		case http.StatusBadRequest, http.StatusGone:
			return api.CallBadRequest
		case http.StatusPaymentRequired:
			return api.CallSubscriptionRequired
		}
		return api.CallFailed
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

// rejectBody returns an error if the request has a body. The connection is closed after the response, because sender and receiver may
// disagree on where such a request ends.
func rejectBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength != 0 { // -1 if the length is unknown
		w.Header().Set("Connection", "close")
		return problem.New(problem.BodyNotAllowed, "A %s request must not have a body.", r.Method)
	}
	return nil
}
