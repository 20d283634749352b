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

// call is what comes to be known of a call of the API while it runs.
type call struct {
	end     *ended
	caller  *authn.Principal // nil as long as nobody knows whose key it is
	charge  admission.Decision
	outcome api.CallOutcome
}

// call is the part of the chain that only the API has: a key, a charge, the service, the charge kept or given back; and a note of
// how it ended, for the owner of the key.
func (e *Edge) call(w http.ResponseWriter, r *http.Request, to route.Route, end *ended) (int, error) {
	key, err := authn.Read(r.Header["Authorization"], e.OlderKeys)
	if err != nil {
		return 0, err
	}
	c := call{end: end, outcome: api.CallFailed} // which it has when a panic ends it
	defer e.note(&c)
	status, err := e.charged(w, r, to, key, &c)
	c.outcome = outcome(status, err)
	return status, err
}

// charged answers a call that the limits admit.
func (e *Edge) charged(w http.ResponseWriter, r *http.Request, to route.Route, key authn.Key, c *call) (int, error) {
	if err := e.admit(r, key, c); err != nil {
		return 0, err
	}
	if c.charge.Verdict == admission.Refused {
		c.charge.Describe(w.Header())
		return 0, c.charge.Problem()
	}
	settled := false
	refund := func() {
		if !settled {
			settled = true
			e.refund(r, c)
			c.charge.Describe(w.Header())
		}
	}
	defer refund() // however the call ends before it is settled, be it by a panic
	answer, err := e.ask(r, to, c.caller)
	if err != nil {
		return 0, err
	}
	if keeps(answer.StatusCode) {
		c.charge.Describe(w.Header())
	} else {
		refund()
	}
	if err := answer.Write(w); err != nil {
		return 0, upstream{err}
	}
	settled = true
	return answer.StatusCode, nil
}

// keeps reports whether an answer is one that the allowance is for.
func keeps(status int) bool {
	return status == http.StatusOK || status == http.StatusNotModified || status == http.StatusNotFound
}

func (e *Edge) refund(r *http.Request, c *call) {
	if err := e.Limiter.Refund(r.Context(), c.caller.Account, &c.charge); err != nil {
		e.Telemetry.Log.WarnContext(r.Context(), "a charge was not given back", "account", c.caller.Account, "error", err.Error())
	}
}

// note counts the call for its key, once, on the day that it is charged to.
func (e *Edge) note(c *call) {
	if c.caller == nil {
		return
	}
	at := c.charge.Clock
	if at.IsZero() { // nobody charged anything
		at = e.Now()
	}
	e.Tallies.Note(c.caller.Key, c.outcome, at)
}

// outcome is how a call ended, by the status of its answer or by its error.
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

func (e *Edge) ask(r *http.Request, to route.Route, caller *authn.Principal) (proxy.Answer, error) {
	if err := bodiless(r); err != nil {
		return proxy.Answer{}, err
	}
	service := e.Catalog
	if to.Operation == route.History {
		service = e.History
	}
	answer, err := service.Ask(r, to.Path, caller.Caller)
	if err != nil {
		return answer, upstream{err}
	}
	return answer, nil
}

// bodiless refuses a body where there is nothing to read from one.
func bodiless(r *http.Request) error {
	if r.ContentLength != 0 { // -1 where the length is not told
		return problem.New(problem.BodyNotAllowed, "A %s request must not have a body.", r.Method)
	}
	return nil
}
