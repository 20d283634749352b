// Package pages is the account's HTML: what a person does in a browser before and between calls of the API. The gateway sends
// /account here.
//
// To add a page: a line in routes.go with its access, a handler that returns a view, and a template of the view's name in
// templates/ that defines "content". Handlers never write; what they return is rendered, redirected to or refused in one place.
// Everything works without JavaScript.
package pages

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/tier"
)

// Sessions are the browsers that are signed in.
type Sessions interface {
	// Session is the living one that a secret stands for, with its person; not_found where there is none.
	Session(ctx context.Context, secret string) (session.Session, account.Person, error)
	// EndSession ends one of an account's.
	EndSession(ctx context.Context, accountID, id string) error
}

// Site is what the pages are made of. Fill its exported fields and pass it to New.
type Site struct {
	Errors    problem.Writer
	Tokens    peer.Tokens
	PublicURL string // where browsers reach the gateway, without a trailing slash
	Contact   string // e-mail address or https URL of the operator; may be empty
	Now       func() time.Time

	TermsVersion string // of the terms of use in effect
	Log          *slog.Logger
	Sessions     Sessions
	Overview     Overview
	Usage        Usage
	Counters     Counters
	Tiers        tier.Table

	Tries          Tries
	Links          Links
	SignUps        SignUps
	Passwords      Passwords
	Resets         Resets
	Authenticators Authenticators
	Codes          Codes
	Losses         Losses

	Keys        Keys
	KeyRequests KeyRequests
	KeyLives    KeyLives
	Peppers     [][]byte // newest first
	AutoApprove bool     // requests for keys need no operator
	// InForce puts in force on every gateway what was committed for an account. An error means that it happens later, by itself.
	InForce func(ctx context.Context, accountID string) error

	Passkeys     Passkeys
	Challenges   Challenges
	Proofs       Proofs
	Changes      Changes
	Replacements Replacements
	Presence     Presence
	Events       Events
	Closing      Closing

	Billing Billing // nil: nothing is sold
	Wishes  Wishes

	passkeys  passkey.Site
	templates map[string]*template.Template
	files     map[string]file
	origins   *http.CrossOriginProtection
	headers   map[string]string
	opens     map[string]bool // paths, as routes has them, that a browser can open
}

// New parses the templates and prepares what does not change between requests.
func New(site Site) (*Site, error) {
	s := &site
	public, err := url.Parse(s.PublicURL)
	if err != nil {
		return nil, err
	}
	s.origins = http.NewCrossOriginProtection()
	if err := s.origins.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		return nil, err
	}
	s.passkeys = passkey.At(s.PublicURL, issuer)
	s.headers = headers(public.Scheme == "https")
	s.opens = map[string]bool{}
	for _, r := range routes() {
		if r.method == http.MethodGet {
			s.opens[r.path] = true
		}
	}
	if s.files, err = statics(); err != nil {
		return nil, err
	}
	s.templates, err = s.parse()
	return s, err
}

// Under reports whether a path is one of the pages'.
func Under(path string) bool { return path == home || strings.HasPrefix(path, home+"/") }

// home is the first page, and what all others lie under.
const home = "/account"

// Handler answers everything Under home, to peers with an internal token alone.
func (s *Site) Handler() http.Handler {
	e := web.New(s.Errors)
	e.Use(web.Internal(s.Errors, s.Tokens))
	e.NoRoute(web.Internal(s.Errors, s.Tokens), s.page(open, func(*Site, *visit) (view, error) {
		return view{}, problem.New(problem.NotFound, "There is no such page.")
	}))
	e.NoMethod(web.Internal(s.Errors, s.Tokens), s.page(open, func(*Site, *visit) (view, error) {
		return view{}, problem.New(problem.MethodNotAllowed, "This page cannot be used in that way.")
	}))
	s.Routes(e)
	return e
}

// Routes registers the files and every page.
func (s *Site) Routes(inside gin.IRouter) {
	inside.GET(home+"/static/:file", s.static)
	inside.HEAD(home+"/static/:file", s.static)
	for _, r := range routes() {
		inside.Handle(r.method, r.path, s.page(r.access, r.handle))
		if r.method == http.MethodGet {
			inside.HEAD(r.path, s.page(r.access, r.handle))
		}
	}
}

// policy is what browsers are told to load and to send: our own alone, but for forms that lead to formsTo.
func policy(formsTo ...string) string {
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action " + strings.Join(append([]string{"'self'"}, formsTo...), " ") + "; frame-ancestors 'none'; base-uri 'none'"
}

// headers go out with every page.
func headers(https bool) map[string]string {
	h := map[string]string{
		"Content-Security-Policy": policy(),
		// not no-referrer: browsers would then send forms with the origin "null", which the check of origins refuses
		"Referrer-Policy":              "same-origin",
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
	}
	if https {
		h["Strict-Transport-Security"] = "max-age=31536000"
	}
	return h
}
