// Package route knows the paths of the API: which operation a path names, and nothing else. A path that names none is
// nowhere: it is not redirected, and nobody is asked for a key.
package route

import (
	"net/url"
	"strings"
)

// Operation is one operation of the API by its path, as logs, metrics and traces name it.
type Operation string

const (
	List    Operation = "/api/v1/opportunities"
	Alias   Operation = "/api/jobs" // List under another name
	Detail  Operation = "/api/v1/opportunities/{id}"
	History Operation = "/api/v1/opportunities/{id}/history"
)

// Allow is what the Allow header says for every path that is served.
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
	}
	rest, ok := strings.CutPrefix(u.Path, string(List)+"/")
	id, tail, deeper := strings.Cut(rest, "/")
	if !ok || id == "" || id == "." || id == ".." {
		return Route{}, false
	}
	path := string(List) + "/" + url.PathEscape(id)
	switch {
	case !deeper:
		return Route{Detail, path}, true
	case tail == "history":
		return Route{History, path + "/history"}, true
	}
	return Route{}, false
}

// encodedSlash reports whether an escaped path hides a slash in a segment. RawPath is empty for a path without such oddities.
func encodedSlash(raw string) bool {
	return strings.Contains(raw, "%2F") || strings.Contains(raw, "%2f")
}
