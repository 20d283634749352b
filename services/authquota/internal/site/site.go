// Package site serves the account's HTML pages under /account, which the gateway forwards. It holds what all pages share: the
// layout, the session gate, rendering, form helpers and static files. The pages themselves are in the pages package of each
// feature.
//
// Handlers never write the response. They return a View or an error, which is rendered in one place. All pages work without
// JavaScript.
package site

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/assets"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/people"
)

// Sessions finds the sessions of signed-in browsers.
type Sessions interface {
	// Session returns the active session with this secret and its person; not_found if there is none.
	Session(ctx context.Context, secret string) (people.Session, people.Person, error)
}

// Config holds the dependencies of a Site.
type Config struct {
	Errors    problem.Writer
	PublicURL string // public URL of the gateway, without a trailing slash
	Contact   string // e-mail address or https URL of the operator; may be empty
	Now       func() time.Time
	Sessions  Sessions
	Available func(context.Context) error // an error fails the request to any page
}

// Site serves the pages.
type Site struct {
	Config

	routes    []Route
	templates map[string]*template.Template
	files     assets.Files
	origins   *http.CrossOriginProtection
	headers   map[string]string
	opens     map[string]bool // paths, as in routes, that a browser can open
}

// New parses the templates of the features and returns a Site that is ready to serve their pages.
func New(cfg Config, features ...Feature) (*Site, error) {
	s := &Site{Config: cfg, opens: map[string]bool{}}
	public, err := url.Parse(s.PublicURL)
	if err != nil {
		return nil, err
	}
	s.origins = http.NewCrossOriginProtection()
	if err := s.origins.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		return nil, err
	}
	s.headers = assets.Headers(public.Scheme == "https")
	if s.files, err = assets.Load(staticFS, "static"); err != nil {
		return nil, err
	}
	layout, err := s.layout()
	if err != nil {
		return nil, err
	}
	s.templates = map[string]*template.Template{}
	for _, f := range append(features, Feature{Templates: templates}) {
		if err := parsePages(s.templates, layout, f.Templates); err != nil {
			return nil, err
		}
		s.routes = append(s.routes, f.Routes...)
	}
	for _, r := range s.routes {
		if r.Method == http.MethodGet {
			s.opens[r.Path] = true
		}
	}
	return s, nil
}

// Under reports whether path belongs to the pages.
func Under(path string) bool { return path == Home || strings.HasPrefix(path, Home+"/") }

// Handler serves all paths Under Home.
func (s *Site) Handler() http.Handler {
	e := web.New(s.Errors)
	e.NoRoute(s.page(Route{Handle: func(*Visit) (View, error) {
		return View{}, problem.New(problem.NotFound, "This page does not exist.")
	}}))
	e.NoMethod(s.page(Route{Handle: func(*Visit) (View, error) {
		return View{}, problem.New(problem.MethodNotAllowed, "This page does not support this method.")
	}}))
	e.GET(Home+"/static/:file", s.static)
	e.HEAD(Home+"/static/:file", s.static)
	for _, r := range s.routes {
		e.Handle(r.Method, r.Path, s.page(r))
		if r.Method == http.MethodGet {
			e.HEAD(r.Path, s.page(r))
		}
	}
	return e
}

// page adapts a route to gin. Only it and static write responses.
func (s *Site) page(r Route) gin.HandlerFunc {
	return func(g *gin.Context) {
		for name, value := range s.headers {
			g.Header(name, value)
		}
		v := &Visit{Context: g, Now: s.Now().UTC()}
		shown, err := s.call(v, r)
		if err == nil {
			err = s.write(v, shown)
		}
		if err != nil {
			s.reject(v, err)
		}
	}
}

// call checks the origin, the form and the access of a request before it calls the handler. It returns a panic as an error.
func (s *Site) call(v *Visit, r Route) (shown View, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	if err := s.origins.Check(v.Request); err != nil {
		return View{
			Template: "error", Title: "This form came from another site", Status: http.StatusForbidden,
			Data: "Your browser reports that another site sent this form. Reload the page and submit it again.",
		}, nil
	}
	v.Request.Body = http.MaxBytesReader(v.Writer, v.Request.Body, cmp.Or(r.MaxBody, api.MaxForm))
	if err := v.Request.ParseForm(); err != nil {
		return View{}, problem.New(problem.InvalidParameter, "The form could not be read.").Because(err)
	}
	if err := s.Available(v.Request.Context()); err != nil {
		return View{}, err
	}
	elsewhere, err := s.enter(v, r.Access)
	if err != nil || elsewhere != "" {
		return View{Redirect: elsewhere}, err
	}
	return r.Handle(v)
}
