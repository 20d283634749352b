// Package edge serves the public listener. It connects the packages of the gateway, which do not
// import each other: authn, admission, agent, proxy, docsite and usage.
//
// An Edge has their parts. Each request is an exchange that passes through the steps of its route;
// Edge.routes is the table of routes, and Edge.steps has the steps in their order.
package edge

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzhttp"

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
