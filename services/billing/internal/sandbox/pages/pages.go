// Package pages serves the sandbox's web pages: a checkout, and a portal that also offers what banks and operators do at a real processor.
// The pages use plain forms without scripts and say that no money moves.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/sandbox"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed style.css
var style []byte

// maxForm is the maximum size of a form in bytes, well above any valid form.
const maxForm = 4 << 10

// site holds the dependencies of the handlers.
type site struct {
	sandbox *sandbox.Sandbox
	origins *http.CrossOriginProtection
	pages   map[string]*template.Template
	log     *slog.Logger
}

// New returns a handler for everything below sandbox.Path. It accepts forms only from the origin of publicURL.
func New(processor *sandbox.Sandbox, publicURL string, log *slog.Logger) (http.Handler, error) {
	public, err := url.Parse(publicURL)
	if err != nil {
		return nil, err
	}
	s := site{sandbox: processor, origins: http.NewCrossOriginProtection(), pages: map[string]*template.Template{}, log: log}
	if err := s.origins.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		return nil, err
	}
	for _, name := range []string{"checkout", "portal", "error"} {
		t := template.New("layout.html").Funcs(template.FuncMap{"instant": formatTime, "day": formatDay, "button": newButton})
		if s.pages[name], err = t.ParseFS(templates, "templates/layout.html", "templates/"+name+".html"); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+sandbox.Path+"style.css", serveStyle)
	mux.HandleFunc("GET "+sandbox.Path+"checkout/{session}", s.handler(s.checkout))
	mux.HandleFunc("POST "+sandbox.Path+"checkout/{session}", s.handler(s.pay))
	mux.HandleFunc("GET "+sandbox.Path+"portal/{session}", s.handler(s.portal))
	mux.HandleFunc("POST "+sandbox.Path+"portal/{session}", s.handler(s.portalAction))
	mux.HandleFunc(sandbox.Path, s.handler(func(*http.Request) (view, error) {
		return view{}, problem.New(problem.NotFound, "Page not found.")
	}))
	return mux, nil
}

// view is the result of a handler: a page or a redirect.
type view struct {
	page     string
	title    string
	data     any
	redirect string
	message  string // why a form was rejected; empty otherwise
}

// templateData is the data of a template.
type templateData struct {
	Title   string
	Message string
	Data    any
}

func (s site) handler(handle func(*http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "same-origin") // keeps the secret URL private; no-referrer would send forms with the origin "null"
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		v, status := s.view(w, r, handle)
		if v.redirect != "" {
			http.Redirect(w, r, v.redirect, http.StatusSeeOther)
			return
		}
		var b bytes.Buffer
		if err := s.pages[v.page].Execute(&b, templateData{v.title, v.message, v.data}); err != nil {
			s.log.ErrorContext(r.Context(), "page failed", "error", err.Error())
			http.Error(w, "Internal error", http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write(b.Bytes())
	}
}

func (s site) view(w http.ResponseWriter, r *http.Request, handle func(*http.Request) (view, error)) (v view, status int) {
	const failed = "Something went wrong"
	if s.origins.Check(r) != nil {
		return view{page: "error", title: failed, data: "Your browser reports that another site sent this form. Open the page again."}, http.StatusForbidden
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		return view{page: "error", title: failed, data: "Your browser sent an invalid form. Open the page again."}, http.StatusBadRequest
	}
	v, err := handle(r)
	switch {
	case err != nil:
		e := problem.Of(err)
		status = e.Code.Status()
		if status >= http.StatusInternalServerError {
			s.log.ErrorContext(r.Context(), "page failed", "error", err.Error())
			return view{page: "error", title: failed, data: "The sandbox is temporarily unavailable. Try again shortly."}, status
		}
		return view{page: "error", title: failed, data: e.Message}, status
	case v.message != "":
		return v, http.StatusUnprocessableEntity
	}
	return v, http.StatusOK
}

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(style)
}

func (s site) checkout(r *http.Request) (view, error) {
	session, err := s.sandbox.Session(r.Context(), sandbox.Checkout, r.PathValue("session"))
	if err != nil {
		return view{}, err
	}
	v := view{page: "checkout", title: "Buy " + session.Plan, data: session}
	if r.URL.Query().Has("declined") && session.Subscription != nil && session.Subscription.Status == sandbox.Incomplete {
		v.message = "The card was declined. Nothing was paid."
	}
	return v, nil
}

func (s site) pay(r *http.Request) (view, error) {
	declines := r.PostForm.Get("card") == "declined"
	session, err := s.sandbox.Session(r.Context(), sandbox.Checkout, r.PathValue("session"))
	if err == nil {
		err = s.sandbox.Pay(r.Context(), session.ID, declines)
	}
	if err != nil || !declines {
		return view{redirect: session.SuccessURL}, err
	}
	return view{redirect: r.URL.Path + "?declined"}, nil
}

func (s site) portal(r *http.Request) (view, error) {
	session, err := s.sandbox.Session(r.Context(), sandbox.Portal, r.PathValue("session"))
	return view{page: "portal", title: "Card and invoices", data: session}, err
}

func (s site) portalAction(r *http.Request) (view, error) {
	id, form := r.PathValue("session"), r.PostForm
	var err error
	switch action := form.Get("act"); action {
	case "card-works", "card-declines":
		err = s.sandbox.SetCard(r.Context(), id, action == "card-declines")
	default:
		days, _ := strconv.Atoi(strings.TrimSpace(form.Get("days"))) // 0 if not a number, which is out of range
		err = s.sandbox.Perform(r.Context(), id, form.Get("subscription"), sandbox.Action(action), days)
	}
	if problem.Of(err).Code == problem.InvalidParameter {
		v, portalErr := s.portal(r)
		v.message = problem.Of(err).Message
		return v, portalErr
	}
	return view{redirect: r.URL.Path}, err
}

// instant formats a time to the second, with a machine-readable form.
func formatTime(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339Nano), t.Format("2 January 2006, 15:04:05 UTC"))) //nolint:gosec // contains no user input
}

func formatDay(t time.Time) string { return t.UTC().Format("2 January 2006") }

// button is a form with one action on a subscription.
type button struct {
	Subscription string
	Action       sandbox.Action
	Text         string
	Danger       bool
}

func newButton(s sandbox.Subscription, action sandbox.Action, text string) button {
	return button{s.ID, action, text, action == sandbox.Cancel || action == sandbox.Refund || action == sandbox.DisputePayment}
}
