// Package edge serves the public listener. It connects the packages of the gateway, which do not import each other: authn, admission,
// agent, proxy, docs and usage. See Edge.Handler for the steps of a request.
package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzhttp"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/agent"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docs"
	"opportunity.internal/services/gateway/internal/proxy"
	"opportunity.internal/services/gateway/internal/usage"
)

// Edge serves the public listener.
type Edge struct {
	Keys      *authn.Authenticator
	OlderKeys apikey.OlderForm
	Limiter   *admission.Limiter
	Usage     *usage.Recorder
	Catalog   *proxy.Service
	History   *proxy.Service
	Account   *proxy.Service // the account pages
	Billing   *proxy.Service // nil if no plan is sold
	Pages     *docs.Site     // the documentation
	Agent     *agent.Server
	Trusted   []netip.Prefix // proxies whose X-Forwarded-For is trusted
	HTTPS     bool           // send Strict-Transport-Security
	Errors    problem.Writer
	Telemetry *telemetry.Telemetry
	Now       func() time.Time

	meters meters
	forms  *bodies
	events *bodies // of webhooks

	anonymous *anonymous

	compress func(http.Handler) http.HandlerFunc
}

// Handler returns the handler of the public listener. These are the steps of a request, in order: remove untrusted headers (strip), trace
// and log (Telemetry), route (gin), count and turn errors into responses (observed). Then comes the step of its operation; for an API call,
// those in Edge.steps.
func (e Edge) Handler() (http.Handler, error) {
	e.meters, e.forms, e.events = newMeters(e.Telemetry.Registry), newBodies(maxForms), newBodies(maxEvents)
	e.anonymous = newAnonymous()
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1 << 10))
	if err != nil {
		return nil, err
	}
	e.compress = compress
	engine := newEngine()
	for _, o := range []operation{opList, opAlias, opDetail} {
		e.route(engine, o, callOf, as, e.reading(e.call(e.Catalog))) // the catalog compresses its responses itself, and sets Vary
	}
	e.route(engine, opHistory, callOf, e.compressed, e.reading(e.call(e.History)))
	e.route(engine, opChanges, callOf, e.compressed, e.reading(e.call(e.Catalog)))
	e.route(engine, opLogInfo, plainOf, e.compressed, e.reading(e.limited(e.document)))
	e.route(engine, opRecordPage, recordOf, e.compressed, e.reading(e.limited(e.recordPage)))
	e.route(engine, opRecordEvent, recordOf, e.compressed, e.reading(e.limited(e.recordEvent)))
	e.route(engine, opMCP, plainOf, as, e.agent)
	engine.Any(string(opLog)+"/*path", e.step(opLog, plainOf, as, e.reading(e.limited(e.document)))) // hashes do not compress
	e.pages(engine, opAccount, e.accountPage)
	if e.Billing != nil {
		e.pages(engine, opSandbox, e.page(e.Billing))
		e.route(engine, opWebhook, plainOf, e.compressed, e.webhook)
	}
	account, others := e.step(opAccount, plainOf, e.static, e.accountPage), e.step(unmatched, plainOf, as, e.reading(nil))
	engine.NoMethod(func(c *gin.Context) { // a method that is not one of HTTP
		if c.Writer.Header().Del("Allow"); strings.HasPrefix(c.Request.URL.Path, string(opAccount)) {
			account(c)
		} else {
			others(c)
		}
	})
	engine.NoRoute(e.step(unmatched, plainOf, e.compressed, e.other))
	return e.strip(e.Telemetry.Handler(engine)), nil
}

// handler handles a request and stores the tier of its caller in end. It returns the status of the response that it wrote, or an error for
// which its caller writes the response.
type handler func(w http.ResponseWriter, r *http.Request, to target, end *observation) (int, error)

// coding wraps the handler of a response that may be compressed.
type coding func(http.Handler) http.Handler

// as leaves a response as it is.
func as(h http.Handler) http.Handler { return h }

// route registers the handler of an operation with all methods. find returns the target of a path that gin has matched.
func (e *Edge) route(engine *gin.Engine, o operation, find func(operation, *url.URL) (target, bool), code coding, handle handler) {
	engine.Any(o.pattern(), e.step(o, find, code, handle))
}

// pages registers the handler of pages and of all paths below.
func (e *Edge) pages(engine *gin.Engine, o operation, handle handler) {
	for _, path := range []string{string(o), string(o) + "/*path"} {
		engine.Any(path, e.step(o, plainOf, e.static, handle))
	}
}

// static compresses only the static files of pages. Pages may contain secrets: if an attacker can put text into one, its compressed size reveals
// the secret (BREACH).
func (e *Edge) static(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := varied
		if strings.HasPrefix(r.URL.Path, string(opAccount)+"/static/") {
			code = e.compressed
		}
		code(h).ServeHTTP(w, r)
	})
}

// step returns the gin handler of an operation. A path without a target is not found.
func (e *Edge) step(o operation, find func(operation, *url.URL) (target, bool), code coding, handle handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		if e.HTTPS {
			c.Writer.Header()["Strict-Transport-Security"] = strict
		}
		c.Status(http.StatusOK) // otherwise 404 in a handler of NoRoute
		code, to, handle := code, target{}, handle
		if found, ok := find(o, c.Request.URL); ok || o == unmatched {
			to = found
		} else if path, page := trimSlash(c.Request.URL); o == opAccount && page {
			to, code, handle = target{o, path}, varied, redirect
		} else {
			to, code, handle = target{operation: unmatched}, e.compressed, notFound
		}
		code(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.observed(w, r, to, handle) })).ServeHTTP(c.Writer, c.Request)
		c.Writer.WriteHeaderNow() // otherwise gin writes its own text after a NoRoute without a body
	}
}

// compressed compresses a response if the client accepts that.
func (e *Edge) compressed(h http.Handler) http.Handler {
	compressed, plain := e.compress(h), varied(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header["Accept-Encoding"] != nil && r.Method != http.MethodHead {
			compressed(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

// varied is for responses whose GET might be compressed.
func varied(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Vary"] = []string{"Accept-Encoding"}
		if r.Header["Accept-Encoding"] != nil {
			w = lengthless{w}
		}
		h.ServeHTTP(w, r)
	})
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

// observed records the metrics of a request and turns errors and panics into responses.
func (e *Edge) observed(w http.ResponseWriter, r *http.Request, to target, handle handler) {
	outcome, end := ourFault, observation{to.operation, noTier, time.Now()}
	if to.operation != unmatched {
		telemetry.SetRoute(r.Context(), string(to.operation))
	}
	defer func() { e.meters.observe(&end, outcome) }()
	defer func() {
		if cause := recover(); cause != nil {
			if cause == http.ErrAbortHandler { //nolint:errorlint // net/http panics with the sentinel itself
				panic(cause)
			}
			e.writeError(w, r, fmt.Errorf("panic: %v", cause))
		}
	}()
	status, err := handle(w, r, to, &end)
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

// reading is the step of read-only routes: it responds to other methods than GET and HEAD.
func (e *Edge) reading(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, to target, end *observation) (int, error) {
		switch {
		case isRead(r.Method) && next != nil:
			return next(w, r, to, end)
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", readMethods)
			w.WriteHeader(http.StatusNoContent)
			return http.StatusNoContent, nil
		}
		w.Header().Set("Allow", readMethods)
		return 0, problem.New(problem.MethodNotAllowed, "This path allows only %s.", readMethods)
	}
}

// other serves the documents, which have any path.
func (e *Edge) other(w http.ResponseWriter, r *http.Request, to target, end *observation) (int, error) {
	if r.URL.RawPath != "" || !e.Pages.Has(r.URL.Path) { // no document has an escaped path
		return notFound(w, r, to, end)
	}
	end.route = opDocs
	telemetry.SetRoute(r.Context(), string(end.route))
	serve := func(w http.ResponseWriter, r *http.Request, _ target, _ *observation) (int, error) {
		return http.StatusOK, e.Pages.Serve(w, r)
	}
	if r.URL.Path == docs.SearchPath {
		serve = e.limited(serve)
	}
	return e.reading(serve)(w, r, to, end)
}

func notFound(http.ResponseWriter, *http.Request, target, *observation) (int, error) {
	return 0, problem.NoEndpoint()
}
