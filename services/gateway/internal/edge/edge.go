// Package edge is the chain that a request of a consumer runs through: see Edge.serve. It hands the result of one part of the
// gateway to the next; the parts do not know each other.
package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/route"
	"opportunity.internal/services/gateway/internal/tally"
)

// Edge serves the public listener.
type Edge struct {
	Keys      *authn.Authenticator
	OlderKeys apikey.OlderForm
	Limiter   *admission.Limiter
	Tallies   *tally.Book
	Catalog   *proxy.Service
	History   *proxy.Service
	Account   *proxy.Service // of the account pages
	Billing   *proxy.Service // nil: nothing is sold
	Pages     *docs.Site     // the gateway's own
	Trusted   []netip.Prefix // of proxies whose X-Forwarded-For is believed
	HTTPS     bool           // the service is reached by HTTPS, and browsers are to use nothing else
	Errors    problem.Writer
	Telemetry *telemetry.Telemetry
	Now       func() time.Time

	meters meters
}

// Handler makes the handler of the public listener, outermost first: identity that callers make up is gone before anything
// reads it; then a request is observed; compression is applied to whatever is answered inside.
func (e Edge) Handler() (http.Handler, error) {
	e.meters = newMeters(e.Telemetry.Registry)
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1 << 10))
	if err != nil {
		return nil, err
	}
	plain := http.HandlerFunc(e.observed)
	compressed := compress(plain)
	return e.strip(e.Telemetry.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.HTTPS {
			w.Header()["Strict-Transport-Security"] = strict
		}
		encoded := r.Header["Accept-Encoding"] != nil
		if encoded && r.Method != http.MethodHead && !secret(r.URL.Path) {
			compressed(w, r)
			return
		}
		w.Header()["Vary"] = []string{"Accept-Encoding"}
		if encoded {
			w = lengthless{w}
		}
		plain(w, r)
	}))), nil
}

// strict is for a year. What other names below this one do is not for us to say.
var strict = []string{"max-age=31536000"}

// lengthless answers a HEAD whose GET might be compressed: it has no body to compress, so how long that would be is not known.
type lengthless struct{ http.ResponseWriter }

func (l lengthless) WriteHeader(status int) {
	l.Header().Del("Content-Length")
	l.ResponseWriter.WriteHeader(status)
}

func (l lengthless) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// observed counts how a request ended and turns errors and panics into answers.
func (e *Edge) observed(w http.ResponseWriter, r *http.Request) {
	outcome, end := ourFault, ended{unmatched, noTier, time.Now()}
	defer func() { e.meters.ended(&end, outcome) }()
	defer func() {
		if cause := recover(); cause != nil {
			if cause == http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is what is thrown
				panic(cause)
			}
			e.refuse(w, r, fmt.Errorf("panic: %v", cause))
		}
	}()
	status, err := e.serve(w, r, &end)
	var fault upstream
	switch {
	case err == nil && status < http.StatusBadRequest:
		outcome = served
	case err == nil && status >= http.StatusInternalServerError:
		outcome = upstreamFault // which has said so itself, in a page of its own
	case err == nil, errors.Is(err, context.Canceled), problem.Of(err).Code.Status() < http.StatusInternalServerError:
		outcome = refused
	case errors.As(err, &fault):
		outcome = upstreamFault
	}
	if errors.Is(err, proxy.ErrBroken) { // too late for an error: the caller must not take the part for the whole
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		e.refuse(w, r, err)
	}
}

// upstream marks an error as that of a service behind the gateway.
type upstream struct{ error }

func (u upstream) Unwrap() error { return u.error }

// serve is the chain. It answers with the status it returns, or leaves the answer to the error it returns. What it finds out of
// the request on the way is left in end.
func (e *Edge) serve(w http.ResponseWriter, r *http.Request, end *ended) (int, error) {
	to, ok := route.Match(r.URL)
	if !ok && r.URL.RawPath == "" && e.Pages.Has(r.URL.Path) { // no document needs an escape in its address
		to, ok = route.Route{Operation: route.Docs}, true
	}
	if path, page := route.Unslashed(r.URL); !ok && page {
		end.route = route.Account
		telemetry.SetRoute(r.Context(), string(end.route))
		return unslash(w, r, path), nil
	}
	if !ok || e.Billing == nil && (to.Operation == route.Webhook || to.Operation == route.Sandbox) {
		return 0, problem.New(problem.NotFound, "There is nothing at this address.")
	}
	end.route = to.Operation
	telemetry.SetRoute(r.Context(), string(end.route))
	switch to.Operation {
	case route.Account:
		return e.page(w, r, to, e.Account)
	case route.Sandbox:
		return e.page(w, r, to, e.Billing)
	case route.Webhook:
		return e.webhook(w, r, to)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		w.Header().Set("Allow", route.Allow)
		w.WriteHeader(http.StatusNoContent)
		return http.StatusNoContent, nil
	default:
		w.Header().Set("Allow", route.Allow)
		return 0, problem.New(problem.MethodNotAllowed, "This path allows only %s.", route.Allow)
	}
	switch to.Operation {
	case route.Docs:
		return http.StatusOK, e.Pages.Serve(w, r)
	case route.Checkpoints, route.Checkpoint:
		return e.document(w, r, to)
	}
	return e.call(w, r, to, end)
}
