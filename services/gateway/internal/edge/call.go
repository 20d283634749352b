package edge

import (
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/route"
)

// call holds the state of one API call.
type call struct {
	end     *observation
	caller  *authn.Principal // nil until the key is resolved
	charge  admission.Decision
	outcome api.CallOutcome
}

// call serves an API route: it charges the call to the account of the key, forwards it, refunds the charge if the response is not
// billable, and records the outcome for the account's usage chart.
func (e *Edge) call(w http.ResponseWriter, r *http.Request, to route.Route, key authn.Key, end *observation) (int, error) {
	c := call{end: end, outcome: api.CallFailed} // the outcome after a panic
	defer e.record(&c)
	status, err := e.chargeAndForward(w, r, to, key, &c)
	c.outcome = outcome(status, err)
	return status, err
}

// chargeAndForward admits and charges the call, then writes the response of the service. A rejected call is an error.
func (e *Edge) chargeAndForward(w http.ResponseWriter, r *http.Request, to route.Route, key authn.Key, c *call) (int, error) {
	if err := e.admit(r, key, c); err != nil {
		return 0, err
	}
	if c.charge.Verdict == admission.Rejected {
		c.charge.SetHeaders(w.Header())
		return 0, c.charge.Problem()
	}
	settled := false
	refund := func() {
		if !settled {
			settled = true
			e.refund(r, c)
			c.charge.SetHeaders(w.Header())
		}
	}
	defer refund() // after an error or a panic
	response, err := e.forward(r, to, c.caller)
	if err != nil {
		return 0, err
	}
	if isCharged(response.StatusCode) {
		c.charge.SetHeaders(w.Header())
	} else {
		refund()
	}
	if err := response.Write(w); err != nil {
		return 0, upstream{err}
	}
	settled = true
	return response.StatusCode, nil
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

// record adds the call to its key's usage for the day it was charged to.
func (e *Edge) record(c *call) {
	if c.caller == nil {
		return
	}
	at := c.charge.Clock
	if at.IsZero() { // nothing was charged
		at = e.Now()
	}
	e.Usage.Record(c.caller.Key, c.outcome, at)
}

// outcome classifies a call by the status of its response or by its error.
func outcome(status int, err error) api.CallOutcome {
	if err == nil {
		switch status {
		case http.StatusOK, http.StatusNotModified:
			return api.CallServed
		case http.StatusNotFound:
			return api.CallNotFound
		case http.StatusBadRequest:
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

func (e *Edge) forward(r *http.Request, to route.Route, caller *authn.Principal) (proxy.Response, error) {
	if err := rejectBody(r); err != nil {
		return proxy.Response{}, err
	}
	service := e.Catalog
	if to.Operation == route.History {
		service = e.History
	}
	response, err := service.Forward(r, to.Path, caller.Caller)
	if err != nil {
		return response, upstream{err}
	}
	return response, nil
}

// rejectBody returns an error if the request has a body.
func rejectBody(r *http.Request) error {
	if r.ContentLength != 0 { // -1 if the length is unknown
		return problem.New(problem.BodyNotAllowed, "A %s request must not have a body.", r.Method)
	}
	return nil
}
