package edge

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gin-gonic/gin"
)

// operation names a route in logs, metrics and traces. It never contains text of the caller.
type operation string

// API routes. They require a key and are charged.
const (
	opList    operation = "/api/v1/opportunities"
	opAlias   operation = "/api/jobs" // opList under another name
	opDetail  operation = "/api/v1/opportunities/{id}"
	opHistory operation = "/api/v1/opportunities/{id}/history"
	opSearch  operation = "/api/v1/search"
	opChanges operation = "/api/v1/changes"
)

// Routes without a key. They are never charged.
const (
	opDocs    operation = "/docs"                                // all documents of the gateway, at any path
	opAccount operation = "/account"                             // and all paths below: account pages, with any method
	opLogInfo operation = "/.well-known/opportunity-history"     // the document about the log
	opLog     operation = "/.well-known/opportunity-history/log" // and all paths below: the log's checkpoint, tiles and proofs
	opWebhook operation = "/billing/stripe/webhook"              // webhook events of the payment processor
	opSandbox operation = "/billing/sandbox"                     // and all paths below: pages of the payment sandbox
)

var (
	calls      = []operation{opList, opAlias, opSearch, opDetail, opHistory, opChanges}
	operations = append(calls[:len(calls):len(calls)], opDocs, opAccount, opLogInfo, opLog, opRecordPage, opRecordEvent, opWebhook, opSandbox, opMCP)
)

// pattern returns the path of the operation in the syntax of gin.
func (o operation) pattern() string { return strings.NewReplacer("{", ":", "}", "").Replace(string(o)) }

// readMethods is the Allow header of all read-only routes.
const readMethods = "GET, HEAD, OPTIONS"

// target is a matched operation and the path for its service.
type target struct {
	operation

	path string // escaped
}

// callOf returns the target of a call. gin has matched the path, but for the names "." and "..", and for encoded slashes. An {id} is any
// other segment; the service reports unknown records, after key, quota and parameters were checked.
func callOf(o operation, u *url.URL) (target, bool) {
	id, tail, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(u.Path, string(opList)), "/"), "/")
	switch {
	case hasEncodedSlash(u):
		return target{}, false
	case o == opList, o == opAlias, o == opSearch, o == opChanges:
		return target{o, string(o)}, true
	case id == "", id == ".", id == "..", (tail == "history") != (o == opHistory):
		return target{}, false
	}
	return target{o, strings.Replace(string(o), "{id}", url.PathEscape(id), 1)}, true
}

// matchCall returns the target of a call that gin has not matched.
func matchCall(u *url.URL) (target, bool) {
	for _, o := range calls {
		if ok, _ := path.Match(strings.Replace(string(o), "{id}", "*", 1), u.Path); ok { // fails only for malformed patterns
			return callOf(o, u)
		}
	}
	return target{}, false
}

// plainOf returns the target of a path that is as it is: without escapes, dot segments and doubled or trailing slashes.
func plainOf(o operation, u *url.URL) (target, bool) {
	return target{o, u.Path}, path.Clean(u.Path) == u.Path && u.EscapedPath() == u.Path
}

// hasEncodedSlash reports whether a segment of the path has an encoded slash. RawPath is empty for most paths.
func hasEncodedSlash(u *url.URL) bool {
	return strings.Contains(u.RawPath, "%2F") || strings.Contains(u.RawPath, "%2f")
}

// newEngine returns a router without redirects.
func newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash, engine.RedirectFixedPath = false, false
	engine.UseRawPath, engine.UnescapePathValues = true, false
	engine.HandleMethodNotAllowed = true
	_ = engine.SetTrustedProxies(nil) // only malformed addresses fail
	return engine
}

// isRead reports whether a method can be used with read-only routes.
func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }
