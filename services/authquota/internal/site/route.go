package site

import (
	"io/fs"
	"net/http"
)

// Feature is a group of pages.
type Feature struct {
	Routes    []Route
	Templates fs.FS // templates/*.html, each named after a page
}

// Route is a page or the action of a form.
type Route struct {
	Method string
	Path   string
	Access Access
	Handle Handler

	MaxBody int64 // of a request, in bytes; 0 means api.MaxForm
}

// Get returns the route of a page.
func Get(path string, access Access, handle Handler) Route {
	return Route{Method: http.MethodGet, Path: path, Access: access, Handle: handle}
}

// Post returns the route of a form.
func Post(path string, access Access, handle Handler) Route {
	return Route{Method: http.MethodPost, Path: path, Access: access, Handle: handle}
}

// Handler handles a request. The site renders its View or error.
type Handler func(*Visit) (View, error)

// Access is the access level of a page.
type Access int

const (
	Open     Access = iota // everyone; the visit has no person
	Halfway                // only a person who has proven the password but not the second factor
	SignedIn               // a person who has proven both and has an authenticator
	Recent                 // SignedIn, with a proof of a factor within people.RecentProof
)

// Paths of pages that several features lead to.
const (
	Home     = "/account" // the home page, and the prefix of all others
	SignIn   = Home + "/sign-in"
	Keys     = Home + "/keys"
	Plan     = Home + "/plan"
	Security = Home + "/security"
)
