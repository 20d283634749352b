// Package route knows the paths that lead to a service: what a path names, and nothing else. A path that names nothing is
// nowhere: it is not redirected, and nobody is asked for a key.
package route

import (
	"net/url"
	"path"
	"strings"
)

// Operation is what a path names, as logs, metrics and traces call it. It never holds what a caller made up.
type Operation string

// The API: a call needs a key, and is charged.
const (
	List    Operation = "/api/v1/opportunities"
	Alias   Operation = "/api/jobs" // List under another name
	Detail  Operation = "/api/v1/opportunities/{id}"
	History Operation = "/api/v1/opportunities/{id}/history"
)

// What takes no key and is never charged.
const (
	Docs        Operation = "/docs"    // the gateway's own documents, wherever they are
	Account     Operation = "/account" // and all below: pages for a browser, in any method
	Checkpoints Operation = "/.well-known/opportunity-history"
	Checkpoint  Operation = "/.well-known/opportunity-history/{name}" // or its heads
	Webhook     Operation = "/billing/stripe/webhook"                 // where the payment processor says that something changed
	Sandbox     Operation = "/billing/sandbox"                        // and all below: pages of the processor that stands in for it
)

// Operations are all of them.
var Operations = []Operation{List, Alias, Detail, History, Docs, Account, Checkpoints, Checkpoint, Webhook, Sandbox}

// Allow is what the Allow header says for every path that is only read.
const Allow = "GET, HEAD, OPTIONS"

// Route is where a request goes.
type Route struct {
	Operation Operation
	Path      string // for the upstream: nothing but what Match understood, escaped anew
}

// Match finds the route of a URL; ok is false where there is nothing. Only exact paths match: no trailing, doubled or encoded
// slash and no dot segment. An {id} may be any other segment: whether there is such a record is for the upstream to say, after
// the key, the allowance and the parameters were checked.
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

// Unslashed is the path of a page to which somebody has added a slash; ok is false where there is no such page. Paths of the API are
// exact.
func Unslashed(u *url.URL) (path string, ok bool) {
	path, slashed := strings.CutSuffix(u.Path, "/")
	if !slashed || u.EscapedPath() != u.Path {
		return "", false
	}
	to, ok := Match(&url.URL{Path: path})
	return path, ok && to.Operation == Account
}

// below reports whether a URL is below a path of pages. None of these needs an escape in its address.
func below(u *url.URL, top Operation) bool {
	return strings.HasPrefix(u.Path, string(top)+"/") && path.Clean(u.Path) == u.Path && u.EscapedPath() == u.Path
}

// encodedSlash reports whether an escaped path hides a slash in a segment. RawPath is empty for a path without such oddities.
func encodedSlash(raw string) bool {
	return strings.Contains(raw, "%2F") || strings.Contains(raw, "%2f")
}
