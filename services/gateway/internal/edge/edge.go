// Package edge serves the public listener. It connects the packages of the gateway, which do not
// import each other: authn, admission, agent, proxy, docsite and usage.
//
// An Edge has their parts. Edge.routes is the table of routes, and Edge.steps has the steps of a
// route in their order: find the path, allow the method, and for a call authenticate its key, admit
// and charge it, forward it, and respond. Each request is an exchange that passes through them.
// Edge.observe runs them, turns an error into a response, and records the outcome. Work that no
// account pays for has limits of its own (anonymous, bodies).
package edge

import (
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzhttp"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/agent"
	"opportunity.internal/services/gateway/internal/authn"
	"opportunity.internal/services/gateway/internal/docsite"
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
	Records   *peer.Client   // the catalog, for permalinks
	Pages     *docsite.Site  // the documentation
	Agent     *agent.Server
	Trusted   []netip.Prefix // proxies whose X-Forwarded-For is trusted
	HTTPS     bool           // send Strict-Transport-Security
	Errors    problem.Writer
	Telemetry *telemetry.Telemetry
	Now       func() time.Time

	meters    meters
	forms     *bodies
	events    *bodies // of webhooks
	anonymous *anonymous
	compress  func(http.Handler) http.HandlerFunc
	engine    *gin.Engine
}

// Handler returns the handler of the public listener: untrusted headers are removed, the request is
// traced and logged, and gin finds its route. Edge.steps has the rest.
func (e Edge) Handler() (http.Handler, error) {
	routes := e.routes()
	e.meters, e.forms, e.events = newMeters(e.Telemetry.Registry, routes), newBodies(maxForms), newBodies(maxEvents)
	e.anonymous = newAnonymous()
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1 << 10))
	if err != nil {
		return nil, err
	}
	e.compress, e.engine = compress, newEngine()
	for _, r := range routes {
		e.engine.Any(r.pattern, e.steps(r)...)
	}
	e.engine.NoRoute(e.steps(route{operation: unmatched, coding: e.compressed, handle: notFound})...)
	e.engine.NoMethod(func(c *gin.Context) { // not one of HTTP: the route rejects it as TRACE, with its own Allow
		traced := *c.Request
		traced.Method = http.MethodTrace
		c.Request = &traced
		e.engine.HandleContext(c)
	})
	return e.strip(e.Telemetry.Handler(e.engine)), nil
}

// strip removes the caller's request id, and its X-Forwarded and trace headers unless a trusted
// proxy sent them. A stranger could otherwise join traces, or force each of its calls to be
// recorded. Identity headers need no removal, because package proxy builds upstream requests from a
// list of allowed headers.
func (e *Edge) strip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.trusts(remote(r)) {
			maps.DeleteFunc(r.Header, func(name string, _ []string) bool {
				return strings.HasPrefix(name, "X-Forwarded-") || name == "Traceparent" || name == "Tracestate" || name == "Baggage"
			})
		}
		delete(r.Header, api.RequestIDHeader)
		next.ServeHTTP(w, r)
	})
}

// client returns the client address: the nearest one that is not a trusted proxy.
func (e *Edge) client(r *http.Request) netip.Addr {
	from := remote(r)
	if r.Header["X-Forwarded-For"] == nil { // as for most requests; the rest allocates
		return from
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0 && e.trusts(from); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		from = hop
	}
	return from
}

func (e *Edge) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(e.Trusted, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

func remote(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // set by the server; if it is malformed, the zero address is not trusted
	return from.Addr()
}

// operation names a route in logs, metrics and traces. It never contains text of the caller.
type operation string

const (
	opList    operation = "/api/v1/opportunities"
	opAlias   operation = "/api/jobs" // opList under another name
	opSearch  operation = "/api/v1/search"
	opDetail  operation = "/api/v1/opportunities/{id}"
	opHistory operation = "/api/v1/opportunities/{id}/history"
	opChanges operation = "/api/v1/changes"

	opDocs        operation = "/docs"                            // all documents of the gateway, at any path
	opAccount     operation = "/account"                         // account pages
	opLogInfo     operation = "/.well-known/opportunity-history" // the document about the log
	opLog         operation = "/.well-known/opportunity-history/log"
	opRecordPage  operation = "/records/{id}"       // the permalink of a record
	opRecordEvent operation = "/records/{id}/event" // the newest event of a record in the free set, in its proof
	opMCP         operation = "/mcp"                // messages of agents, which make API calls
	opWebhook     operation = "/billing/stripe/webhook"
	opSandbox     operation = "/billing/sandbox" // pages of the payment sandbox
)

type route struct {
	operation operation
	pattern   string // in the syntax of gin
	methods   string // that are allowed, as in the header Allow; empty: all that gin knows
	access    access
	coding    gin.HandlerFunc // that compresses responses; nil: the service does, or none is compressed
	handle    step
}

// access decides who pays for a request.
type access int

const (
	open    access = iota // not limited here: it is served from memory, or its handler limits it
	limited               // the network of the caller, within limits for all without a key
	keyed                 // the account of the key, which is required
)

// readMethods is the Allow header of all read-only routes.
const readMethods = "GET, HEAD, OPTIONS"

func (e *Edge) routes() []route {
	static, all, log := gin.HandlerFunc(e.static), gin.HandlerFunc(e.compressed), "/.well-known/opportunity-history"
	table := []route{
		{opList, "/api/v1/opportunities", readMethods, keyed, nil, forward(e.Catalog)},
		{opAlias, "/api/jobs", readMethods, keyed, nil, forward(e.Catalog)},
		{opSearch, "/api/v1/search", readMethods, keyed, nil, forward(e.Catalog)},
		{opDetail, "/api/v1/opportunities/:id", readMethods, keyed, nil, forward(e.Catalog)},
		{opHistory, "/api/v1/opportunities/:id/history", readMethods, keyed, all, forward(e.History)},
		{opChanges, "/api/v1/changes", readMethods, keyed, all, forward(e.Catalog)},
		{opLogInfo, log, readMethods, limited, all, e.document},
		{opLog, log + "/log/*path", readMethods, limited, nil, e.document}, // hashes do not compress
		{opRecordPage, "/records/:id", readMethods, limited, all, e.recordPage},
		{opRecordEvent, "/records/:id/event", readMethods, limited, all, e.recordEvent},
		{opMCP, "/mcp", "", open, nil, e.agent},
		{opAccount, "/account", "", open, static, e.page(e.Account)},
		{opAccount, "/account/*path", "", open, static, e.accountPage},
		{opDocs, docsite.SearchPath, readMethods, limited, all, e.doc},
	}
	for _, path := range e.Pages.Paths() {
		table = append(table, route{opDocs, path, readMethods, open, all, e.doc})
	}
	if e.Billing != nil {
		table = append(table, route{opSandbox, "/billing/sandbox", "", open, static, e.page(e.Billing)},
			route{opSandbox, "/billing/sandbox/*path", "", open, static, e.page(e.Billing)},
			route{opWebhook, "/billing/stripe/webhook", http.MethodPost, open, all, e.webhook})
	}
	return table
}

func (e *Edge) steps(r route) []gin.HandlerFunc {
	steps := []step{find, allow(r.methods)}
	switch r.access {
	case keyed:
		steps = append(steps, e.authenticate, e.admit, withoutBody)
	case limited:
		steps = append(steps, e.limit, withoutBody)
	}
	handlers := []gin.HandlerFunc{e.begin}
	if r.coding != nil {
		handlers = append(handlers, r.coding)
	}
	handlers = append(handlers, e.observe(r.operation))
	for _, s := range append(steps, r.handle, e.respond) {
		handlers = append(handlers, s.run)
	}
	return handlers
}

func newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash, engine.RedirectFixedPath = false, false
	engine.UseRawPath, engine.UnescapePathValues = true, false
	engine.HandleMethodNotAllowed = true
	_ = engine.SetTrustedProxies(nil) // only malformed addresses fail
	return engine
}

// strict lasts a year. It has no includeSubDomains, because subdomains may belong to other
// services.
var strict = []string{"max-age=31536000"}

func (e *Edge) begin(c *gin.Context) {
	h := c.Writer.Header()
	if e.HTTPS {
		h["Strict-Transport-Security"] = strict
	}
	delete(h, "Allow")      // gin sets it before NoMethod
	c.Status(http.StatusOK) // otherwise 404 in a handler of NoRoute
	c.Next()
	c.Writer.WriteHeaderNow() // otherwise gin writes its own text after a NoRoute without a body
}

// find stores the path of a request for its service. A path is not found if it could be read as
// another one, with the exception of account pages: a trailing slash is redirected.
func find(x *exchange) error {
	path, ok := servicePath(x.operation, x.Context)
	if trimmed, slashed := strings.CutSuffix(path, "/"); !ok && slashed && x.operation == opAccount &&
		isPlain(x.Request.URL, trimmed) {
		path, ok = trimmed, true
		redirect(x, trimmed)
	}
	if !ok {
		x.operation = unmatched
		return notFound(x)
	}
	x.path = path
	if x.operation != unmatched {
		telemetry.SetRoute(x.Request.Context(), string(x.operation))
	}
	return nil
}

// servicePath returns the escaped path for the service. An {id} is any segment but "." and "..",
// without a slash; the service reports unknown records, after key, quota and parameters were
// checked. All else is as it is: without escapes, dot segments and doubled or trailing slashes.
func servicePath(o operation, c *gin.Context) (path string, ok bool) {
	u := c.Request.URL
	id, given := c.Params.Get("id")
	if !given {
		return u.Path, len(c.Params) == 0 || isPlain(u, u.Path)
	}
	if u.RawPath != "" {
		id, _ = url.PathUnescape(id) // net/url has parsed it
	}
	if id == "" || id == "." || id == ".." || strings.Contains(id, "/") {
		return "", false
	}
	return strings.Replace(string(o), "{id}", url.PathEscape(id), 1), true
}

func isPlain(u *url.URL, p string) bool { return path.Clean(p) == p && u.EscapedPath() == u.Path }

func redirect(x *exchange, path string) {
	if x.Request.URL.RawQuery != "" {
		path += "?" + x.Request.URL.RawQuery
	}
	h := x.Writer.Header()
	h.Set("Location", path)
	h.Set("Cache-Control", "no-store") // the query may contain the token of a mailed link
	h.Set("Referrer-Policy", "no-referrer")
	x.end(http.StatusPermanentRedirect)
}

func notFound(*exchange) error { return problem.NoEndpoint() }

func allow(methods string) step {
	names := strings.Split(methods, ", ")
	return func(x *exchange) error {
		method := x.Request.Method
		allowed := methods == "" || slices.Contains(names, method)
		if allowed && (methods == "" || method != http.MethodOptions) {
			return nil
		}
		x.Writer.Header().Set("Allow", methods)
		if !allowed {
			return problem.New(problem.MethodNotAllowed, "This path allows only %s.", methods)
		}
		x.end(http.StatusNoContent)
		return nil
	}
}

// withoutBody rejects a request with a body. The connection is closed after the response, because
// sender and receiver may disagree on where such a request ends.
func withoutBody(x *exchange) error {
	if x.Request.ContentLength != 0 { // -1 if the length is unknown
		x.Writer.Header().Set("Connection", "close")
		return problem.New(problem.BodyNotAllowed, "A %s request must not have a body.", x.Request.Method)
	}
	return nil
}
