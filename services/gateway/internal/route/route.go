// Package route maps the path of a public request to an operation. Unknown paths get 404, without a redirect and without a check of
// the API key.
package route

import (
	"net/url"
	"path"
	"strings"
)

// Operation names a route in logs, metrics and traces. It never contains text of the caller.
type Operation string

// API routes. They require a key and are charged.
const (
	List    Operation = "/api/v1/opportunities"
	Alias   Operation = "/api/jobs" // List under another name
	Detail  Operation = "/api/v1/opportunities/{id}"
	History Operation = "/api/v1/opportunities/{id}/history"
)

// Routes without a key. They are never charged.
const (
	Docs        Operation = "/docs"    // all documents of the gateway, at any path
	Account     Operation = "/account" // and all paths below: account pages, with any method
	Checkpoints Operation = "/.well-known/opportunity-history"
	Checkpoint  Operation = "/.well-known/opportunity-history/{name}" // a checkpoint, or its heads
	Webhook     Operation = "/billing/stripe/webhook"                 // webhook events of the payment processor
	Sandbox     Operation = "/billing/sandbox"                        // and all paths below: pages of the payment sandbox
)

// Operations lists every operation.
var Operations = []Operation{List, Alias, Detail, History, Docs, Account, Checkpoints, Checkpoint, Webhook, Sandbox}

// IsCall reports whether the operation requires a key and is charged.
func (o Operation) IsCall() bool {
	return o == List || o == Alias || o == Detail || o == History
}

// Allow is the Allow header of all read-only routes.
const Allow = "GET, HEAD, OPTIONS"

// Route is a matched operation and the path for its service.
type Route struct {
	Operation Operation
	Path      string // escaped path for the service, rebuilt from the matched segments
}

// Match returns the route of a URL, and false if there is none. Only exact paths match: no trailing, doubled or encoded slash and no
// dot segment. An {id} is any other segment; the service reports unknown records, after key, quota and parameters were checked.
func Match(u *url.URL) (Route, bool) {
	if encodedSlash(u.RawPath) {
		return Route{}, false
	}
	switch Operation(u.Path) {
	case List:
		return Route{List, string(List)}, true
	case Alias:
		return Route{Alias, string(Alias)}, true
	case Account:
		return Route{Account, string(Account)}, true
	case Checkpoints:
		return Route{Checkpoints, string(Checkpoints)}, true
	case Webhook:
		return Route{Webhook, string(Webhook)}, true
	case Sandbox:
		return Route{Sandbox, string(Sandbox)}, true
	}
	if below(u, Account) {
		return Route{Account, u.Path}, true
	}
	if below(u, Sandbox) {
		return Route{Sandbox, u.Path}, true
	}
	if below(u, Checkpoints) && path.Dir(u.Path) == string(Checkpoints) {
		return Route{Checkpoint, u.Path}, true
	}
	rest, ok := strings.CutPrefix(u.Path, string(List)+"/")
	id, tail, deeper := strings.Cut(rest, "/")
	if !ok || id == "" || id == "." || id == ".." {
		return Route{}, false
	}
	upstream := string(List) + "/" + url.PathEscape(id)
	switch {
	case !deeper:
		return Route{Detail, upstream}, true
	case tail == "history":
		return Route{History, upstream + "/history"}, true
	}
	return Route{}, false
}

// TrimSlash returns the path of an account page without its trailing slash, and false if there is no such page. API paths have no
// such redirect.
func TrimSlash(u *url.URL) (path string, ok bool) {
	path, slashed := strings.CutSuffix(u.Path, "/")
	if !slashed || u.EscapedPath() != u.Path {
		return "", false
	}
	to, ok := Match(&url.URL{Path: path})
	return path, ok && to.Operation == Account
}

// below reports whether a URL is below top and needs no escaping. No page has an escaped path.
func below(u *url.URL, top Operation) bool {
	return strings.HasPrefix(u.Path, string(top)+"/") && path.Clean(u.Path) == u.Path && u.EscapedPath() == u.Path
}

// encodedSlash reports whether a raw path has an encoded slash in a segment. raw is empty for most paths.
func encodedSlash(raw string) bool {
	return strings.Contains(raw, "%2F") || strings.Contains(raw, "%2f")
}
