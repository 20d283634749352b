package pages

import "net/http"

// access says who gets a page.
type access int

const (
	open     access = iota // everybody; the visit knows of no person
	halfway                // whose password is proven and whose second factor is not, and nobody else
	signedIn               // who has proven both and has an authenticator
	recent                 // signedIn, with a proof of a factor within session.RecentProof
)

// handler answers one visit. What it returns is rendered or refused by page.
type handler func(s *Site, v *visit) (view, error)

type route struct {
	method string
	path   string
	access access
	handle handler
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// routes is every page and who gets it.
func routes() []route {
	return []route{
		{get, "/account", signedIn, (*Site).home},

		// signing up, in and out
		{post, "/account/sign-out", open, (*Site).signOut},

		// security

		// keys

		// usage and plan

	}
}
