package edge

import (
	"net/http"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/route"
)

// call is the part of the chain that only the API has: a key, a charge, the service, and the charge kept or given back.
func (e *Edge) call(w http.ResponseWriter, r *http.Request, to route.Route) (int, error) {
	key, err := authn.Key(r.Header["Authorization"])
	if err != nil {
		return 0, err
	}
	caller, charge, err := e.admit(r, key)
	if err != nil {
		return 0, err
	}
	if charge.Verdict == admission.Refused {
		charge.Describe(w.Header())
		return 0, charge.Problem()
	}
	settled := false
	refund := func() {
		if !settled {
			settled = true
			e.refund(r, caller, &charge)
			charge.Describe(w.Header())
		}
	}
	defer refund() // however the call ends before it is settled, be it by a panic
	answer, err := e.ask(r, to, caller)
	if err != nil {
		return 0, err
	}
	if keeps(answer.StatusCode) {
		charge.Describe(w.Header())
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

func (e *Edge) refund(r *http.Request, caller *authn.Principal, charge *admission.Decision) {
	if err := e.Limiter.Refund(r.Context(), caller.Account, charge); err != nil {
		e.Telemetry.Log.WarnContext(r.Context(), "a charge was not given back", "account", caller.Account, "error", err.Error())
	}
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
