// Package edge serves the public listener. It connects the packages of the gateway, which do not import each other: route, authn,
// admission, proxy, docs and usage. See Edge.serve for the steps of a request.
package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/route"
	"opportunity.internal/services/gateway/internal/usage"
)

// Edge serves the public listener.
type Edge struct {
	Keys      *authn.Authenticator
	OlderKeys apikey.OlderForm
	Limiter   *admission.Limiter
	Usage     *usage.Recorder
	Log       *usage.Log
	Catalog   *proxy.Service
	History   *proxy.Service
	Account   *proxy.Service // the account pages
	Billing   *proxy.Service // nil if no plan is sold
	Pages     *docs.Site     // the documentation
	Trusted   []netip.Prefix // proxies whose X-Forwarded-For is trusted
	HTTPS     bool           // send Strict-Transport-Security
	Errors    problem.Writer
	Telemetry *telemetry.Telemetry
	Now       func() time.Time

	meters meters
	forms  *bodies
	events *bodies // of webhooks
}

// Handler returns the handler of the public listener. From the outside in: untrusted headers are removed, the request is traced and
// logged, the response is compressed unless the catalog does that.
func (e Edge) Handler() (http.Handler, error) {
	e.meters, e.forms, e.events = newMeters(e.Telemetry.Registry), newBodies(maxForms), newBodies(maxEvents)
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1 << 10))
	if err != nil {
		return nil, err
	}
	serve := handler(e.serve) // bound once: each evaluation allocates
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.observed(w, r, serve) })
	compressed := compress(plain)
	return e.strip(e.Telemetry.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.HTTPS {
			w.Header()["Strict-Transport-Security"] = strict
		}
		if isCompressed(r.URL.Path) {
			plain(w, r)
			return
		}
		encoded := r.Header["Accept-Encoding"] != nil
		if encoded && r.Method != http.MethodHead && !mayShowSecret(r.URL.Path) {
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

// isCompressed reports whether the catalog serves path. The catalog compresses its responses itself, and sets Vary.
func isCompressed(path string) bool {
	return strings.HasPrefix(path, "/api/") && !strings.HasSuffix(path, "/history")
}

// strict lasts a year. It has no includeSubDomains, because subdomains may belong to other services.
var strict = []string{"max-age=31536000"}

// lengthless drops the Content-Length of a HEAD response whose GET might be compressed: the compressed length is unknown.
type lengthless struct{ http.ResponseWriter }

func (l lengthless) WriteHeader(status int) {
	l.Header().Del("Content-Length")
	l.ResponseWriter.WriteHeader(status)
}

func (l lengthless) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// handler handles a request and stores its route and tier in end. It returns the status of the response that it wrote, or an error for
// which its caller writes the response.
type handler func(w http.ResponseWriter, r *http.Request, end *observation) (int, error)

// observed records the metrics of a request and turns errors and panics into responses.
func (e *Edge) observed(w http.ResponseWriter, r *http.Request, handle handler) {
	outcome, end := ourFault, observation{unmatched, noTier, time.Now()}
	defer func() { e.meters.observe(&end, outcome) }()
	defer func() {
		if cause := recover(); cause != nil {
			if cause == http.ErrAbortHandler { //nolint:errorlint // net/http panics with the sentinel itself
				panic(cause)
			}
			e.writeError(w, r, fmt.Errorf("panic: %v", cause))
		}
	}()
	status, err := handle(w, r, &end)
	var fault upstream
	switch {
	case err == nil && status < http.StatusBadRequest:
		outcome = served
	case err == nil && status >= http.StatusInternalServerError:
		outcome = upstreamFault // the service sent an error page
	case err == nil, errors.Is(err, context.Canceled), problem.Of(err).Code.Status() < http.StatusInternalServerError:
		outcome = rejected
	case errors.As(err, &fault):
		outcome = upstreamFault
	}
	if errors.Is(err, proxy.ErrTruncated) { // the status is sent: abort, so that the client does not take a truncated body for the whole
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		e.writeError(w, r, err)
	}
}

// upstream marks an error of a service behind the gateway.
type upstream struct{ error }

func (u upstream) Unwrap() error { return u.error }

// serve is the handler of the public listener.
func (e *Edge) serve(w http.ResponseWriter, r *http.Request, end *observation) (int, error) {
	to, ok := route.Match(r.URL)
	if !ok && r.URL.RawPath == "" && e.Pages.Has(r.URL.Path) { // no document has an escaped path
		to, ok = route.Route{Operation: route.Docs}, true
	}
	if path, page := route.TrimSlash(r.URL); !ok && page {
		end.route = route.Account
		telemetry.SetRoute(r.Context(), string(end.route))
		return redirect(w, r, path), nil
	}
	if !ok || e.Billing == nil && (to.Operation == route.Webhook || to.Operation == route.Sandbox) {
		return 0, problem.New(problem.NotFound, problem.NoEndpoint)
	}
	end.route = to.Operation
	telemetry.SetRoute(r.Context(), string(end.route))
	switch to.Operation {
	case route.Account:
		if r.Method == http.MethodPost && strings.HasPrefix(to.Path, api.ExplorerPath+"/") {
			return e.explore(w, r, to)
		}
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
	key, err := authn.Read(r.Header["Authorization"], e.OlderKeys)
	if err != nil {
		return 0, err
	}
	return e.call(w, r, to, key, end)
}
