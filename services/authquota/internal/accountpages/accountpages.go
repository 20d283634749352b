// Package accountpages holds the account pages: signing up, in and out, the security of an account,
// its keys, its usage and its plan. The gateway forwards them.
//
// Each feature has a file with its handlers, and a template for each page in templates. Stores
// write the audit entry and the mail of a change, in its transaction. To add a page, see
// docs/contributors/add-an-account-page.md.
package accountpages

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/epochs"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
)

// Config holds the settings and the dependencies of the pages.
type Config struct {
	PublicURL     string   // public URL of the gateway, without a trailing slash
	Contact       string   // email address or https URL of the operator; may be empty
	MailDirectory string   // where mails are saved instead of being sent; empty if they are sent
	TermsVersion  string   // of the terms of use in effect
	Peppers       [][]byte // newest first
	AutoApprove   bool     // approve key requests automatically
	ApproveTest   bool     // approve the request for an account's test key automatically
	Tiers         account.TierTable
	Errors        problem.Writer
	Now           func() time.Time

	DB      *accountdb.DB
	Billing *peer.Client // nil if no plans are sold

	Available func(context.Context) error // an error fails the request to any page
	Epochs    *epochs.Epochs
	Counters  *keyusage.Counters
}

const siteName = "Opportunity Data API"

// Pages serves the account pages.
type Pages struct {
	Config

	People  *people.Store
	Keys    *keys.Store
	Usage   *keyusage.Store
	Notices *notices.Store

	kit          *pages.Kit
	relyingParty credential.PasskeySite
	description  *apidoc.Description
	opens        map[string]bool // paths, as in routes, that a browser can open; set by Handler
	signUps      *signUps
}

//go:embed templates static
var files embed.FS

// New returns Pages that are ready to serve.
func New(c Config) (*Pages, error) {
	p := &Pages{
		Config: c, relyingParty: credential.PasskeysAt(c.PublicURL, siteName), opens: map[string]bool{},
		signUps: newSignUps(),
		People:  people.NewStore(c.DB), Keys: keys.NewStore(c.DB), Usage: keyusage.NewStore(c.DB),
		Notices: notices.NewStore(c.DB, c.Tiers),
	}
	var err error
	if p.description, err = apidoc.Published(); err != nil {
		return nil, err
	}
	p.kit, err = pages.New(pages.Config{
		Name: siteName, URL: c.PublicURL, Root: homePath, Cookies: http.SameSiteLaxMode, Static: files, Templates: files,
		Funcs: p.functions(), Log: c.Errors.Log,
	})
	return p, err
}

// Under reports whether path belongs to the pages.
func (p *Pages) Under(path string) bool { return p.kit.Under(path) }

// Handler serves all paths Under the home page.
func (p *Pages) Handler() http.Handler {
	e := web.New(p.Errors)
	e.NoRoute(p.missing(problem.NotFound, "This page does not exist."))
	e.NoMethod(p.missing(problem.MethodNotAllowed, "This page does not support this method."))
	e.GET(homePath+"/static/:file", p.static)
	e.HEAD(homePath+"/static/:file", p.static)
	for _, r := range p.routes() {
		if r.show != nil {
			p.opens[r.path] = true
			e.Match([]string{http.MethodGet, http.MethodHead}, r.path, p.page(r.access, r.show))
		}
		if r.submit != nil {
			e.POST(r.path, p.page(r.access, r.submit))
		}
	}
	return e
}

func (p *Pages) missing(code problem.Code, message string) gin.HandlerFunc {
	return p.page(open, func(*Visit) (pages.View, error) { return pages.View{}, problem.New(code, "%s", message) })
}

func (p *Pages) static(g *gin.Context) {
	if !p.kit.ServeStatic(g.Writer, g.Request, g.Param("file")) {
		p.missing(problem.NotFound, "This file does not exist.")(g)
	}
}

func (p *Pages) page(level access, handle handler) gin.HandlerFunc {
	return func(g *gin.Context) {
		v := &Visit{Context: g, kit: p.kit, Now: p.Now().UTC()}
		most := int64(api.MaxForm)
		if g.FullPath() == explorerFormPath {
			most = api.MaxExplorerResult
		}
		p.kit.Serve(g.Writer, g.Request, pages.Handler{
			Handle: func() (pages.View, error) { return p.respond(v, level, handle) },
			Layout: func(shown pages.Page) any { return newLayout(v, shown) },
			Fail:   func(err error) pages.View { return p.fail(v, err) },

			MaxBody: most,
		})
	}
}

func (p *Pages) respond(v *Visit, level access, handle handler) (pages.View, error) {
	if err := p.Available(v.ctx()); err != nil {
		return pages.View{}, err
	}
	elsewhere, err := p.enter(v, level)
	if err != nil || elsewhere != "" {
		return pages.View{Redirect: elsewhere}, err
	}
	for _, param := range v.Params {
		if err := accountdb.CheckID(param.Key, param.Value); err != nil {
			return pages.View{}, err
		}
	}
	return handle(v)
}

var titles = map[problem.Code]string{
	problem.NotFound:           "Page not found",
	problem.ServiceUnavailable: "Temporarily unavailable",
	problem.InternalError:      "Something went wrong",
}

// fail returns the page of an error. Driver errors are only logged.
func (p *Pages) fail(v *Visit, err error) pages.View {
	e := problem.Of(err)
	p.Errors.Report(v.ctx(), err)
	shown := pages.View{Template: "error", Title: titles[e.Code], Data: e.Message, Status: e.Code.Status()}
	if shown.Title == "" {
		shown.Title = "This request failed"
	}
	if e.Code == problem.InternalError {
		shown.Data = "Something failed on our side. Try again in a moment."
	}
	if e.RetryAfter > 0 {
		shown.Header = http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds())))}}
	}
	return shown
}

// applied returns text with a note if err says that the change takes effect later. failed is any
// other error.
func applied(text string, err error) (notice string, failed error) {
	if errors.Is(err, accountdb.ErrNotInEffect) {
		return text + " This takes effect shortly: part of our service is temporarily unavailable.", nil
	}
	return text, err
}

var sections = []pages.Link{
	{Path: homePath, Label: "Overview"},
	{Path: homePath + "/keys", Label: "Keys"},
	{Path: api.ExplorerPath, Label: "Explorer"},
	{Path: homePath + "/usage", Label: "Usage"},
	{Path: homePath + "/plan", Label: "Plan"},
	{Path: noticesPath, Label: "Notices"},
	{Path: homePath + "/security", Label: "Security"},
}

type layout struct {
	pages.Page

	Person *people.Person // nil if not signed in
	Now    time.Time
}

func newLayout(v *Visit, shown pages.Page) layout {
	l := layout{Page: shown, Now: v.Now}
	if v.full() {
		l.Person = &v.Person
	}
	return l
}

// Frame returns the header and the footer of the page.
func (d layout) Frame() pages.Frame {
	f := pages.Frame{
		Name: siteName, Home: "/", Scripts: []string{"time.js", "once.js", "copy.js"},
		Links: []pages.Link{
			{Path: "/docs", Label: "Documentation"}, {Path: "/docs/reference", Label: "API reference"},
			{Path: homePath, Label: "Your account"},
		},
		Footer: []pages.Link{
			{Path: "/docs", Label: "Documentation"}, {Path: "/docs/errors", Label: "Error codes"},
			{Path: "/status", Label: "Status"},
			{Path: "/terms", Label: "Terms of use"}, {Path: "/privacy", Label: "Privacy"},
		},
	}
	if d.Person == nil {
		return f
	}
	f.Person, f.SignOut, f.TabsLabel = &pages.Link{Label: d.Person.Email}, homePath+"/sign-out", "Account"
	for _, s := range sections {
		s.Current = d.Path == s.Path || s.Path != homePath && d.In(s.Path)
		f.Tabs = append(f.Tabs, s)
	}
	return f
}

func (p *Pages) functions() template.FuncMap {
	return template.FuncMap{
		"right":   func() string { return api.UsageRight },
		"mails":   func() string { return p.MailDirectory },
		"instant": instant, "day": day, "count": count, "class": keyusage.Group.Class, "operator": p.operator,
		"public": func() string { return p.PublicURL },
	}
}

func (p *Pages) operator() template.HTML {
	const who = "the operator of the service"
	if p.Contact == "" {
		return who
	}
	address := p.Contact
	if !strings.HasPrefix(address, "https://") {
		address = "mailto:" + address
	}
	link := `<a href="` + template.HTMLEscapeString(address) + `">` + template.HTMLEscapeString(p.Contact) + `</a>`
	return template.HTML(who + " (" + link + ")") //nolint:gosec // validated at startup, and escaped
}

func count(n int) string { return humanize.Comma(int64(n)) }

// instant formats a time; a script adds the local time.
func instant(t time.Time) template.HTML {
	return element(t, time.RFC3339, "2 January 2006, 15:04 UTC")
}

func day(t time.Time) template.HTML {
	return element(t, time.DateOnly, "2 January 2006")
}

func element(t time.Time, machine, people string) template.HTML {
	t = t.UTC()
	text := `<time datetime="` + t.Format(machine) + `">` + t.Format(people) + `</time>`
	return template.HTML(text) //nolint:gosec // digits and month names
}
