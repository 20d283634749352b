// Package pages serves the account's HTML pages under /account, which the gateway forwards.
//
// To add a page, add a line with its access to routes.go, a handler that returns a view, and a template in templates/ that
// defines "content" and is named after the view. Handlers never write the response; the returned view or error is rendered in
// one place. All pages work without JavaScript.
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

	"opportunity.internal/pkg/assets"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/tier"
)

// Sessions stores the sessions of signed-in browsers.
type Sessions interface {
	// Session returns the active session with this secret and its person; not_found if there is none.
	Session(ctx context.Context, secret string) (session.Session, account.Person, error)
	// EndSession ends a session of an account.
	EndSession(ctx context.Context, accountID, id string) error
}

// Site holds the dependencies of the pages. Fill its exported fields and pass it to New.
type Site struct {
	Errors    problem.Writer
	Tokens    peer.Tokens
	PublicURL string // public URL of the gateway, without a trailing slash
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
	AutoApprove bool     // approve key requests automatically
	// Apply makes committed changes of an account take effect on every gateway. After an error they take effect later,
	// automatically.
	Apply func(ctx context.Context, accountID string) error

	Passkeys     Passkeys
	Challenges   Challenges
	Proofs       Proofs
	Changes      Changes
	Replacements Replacements
	Presence     Presence
	Events       Events
	Closing      Closing

	Billing     Billing // nil if no plans are sold
	PlanActions PlanActions

	passkeys  passkey.Site
	templates map[string]*template.Template
	files     assets.Files
	origins   *http.CrossOriginProtection
	headers   map[string]string
	opens     map[string]bool // paths, as in routes, that a browser can open
}

// New parses the templates and returns a Site that is ready to serve.
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
	s.headers = assets.Headers(public.Scheme == "https")
	s.opens = map[string]bool{}
	for _, r := range routes() {
		if r.method == http.MethodGet {
			s.opens[r.path] = true
		}
	}
	if s.files, err = assets.Load(statFS, "static"); err != nil {
		return nil, err
	}
	s.templates, err = s.parse()
	return s, err
}

// Under reports whether path belongs to the pages.
func Under(path string) bool { return path == home || strings.HasPrefix(path, home+"/") }

// home is the home page and the prefix of all others.
const home = "/account"

// Handler serves all paths Under home. Requests need an internal token.
func (s *Site) Handler() http.Handler {
	e := web.New(s.Errors)
	e.Use(web.Internal(s.Errors, s.Tokens))
	e.NoRoute(web.Internal(s.Errors, s.Tokens), s.page(open, func(*Site, *visit) (view, error) {
		return view{}, problem.New(problem.NotFound, "This page does not exist.")
	}))
	e.NoMethod(web.Internal(s.Errors, s.Tokens), s.page(open, func(*Site, *visit) (view, error) {
		return view{}, problem.New(problem.MethodNotAllowed, "This page does not support this method.")
	}))
	s.Routes(e)
	return e
}

// Routes registers the static files and every page.
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
