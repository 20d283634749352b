package edge

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/gateway/internal/docsite"
)

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
