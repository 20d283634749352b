// Package pages is what people see of the sandbox: a page on which to buy, and one that stands for both the processor's portal and all that
// happens at the processor without the customer. Plain forms, no scripts; every page says that no money moves.
package pages

import (
	"bytes"
	"context"
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

// Processor is the sandbox as its pages use it.
type Processor interface {
	Session(ctx context.Context, kind sandbox.Kind, id string) (sandbox.Session, error)
	Pay(ctx context.Context, id string, declines bool) error
	SetCard(ctx context.Context, id string, declines bool) error
	Do(ctx context.Context, id, subscription string, act sandbox.Act, days int) error
}

// maxForm is how long a form may be, in bytes; far above what any needs.
const maxForm = 4 << 10

// site answers for the pages.
type site struct {
	processor Processor
	origins   *http.CrossOriginProtection
	pages     map[string]*template.Template
	log       *slog.Logger
}

// New answers everything under sandbox.Path, in the names of publicURL, from which alone forms are taken.
func New(processor Processor, publicURL string, log *slog.Logger) (http.Handler, error) {
	public, err := url.Parse(publicURL)
	if err != nil {
		return nil, err
	}
	s := site{processor: processor, origins: http.NewCrossOriginProtection(), pages: map[string]*template.Template{}, log: log}
	if err := s.origins.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		return nil, err
	}
	for _, name := range []string{"checkout", "portal", "refused"} {
		t := template.New("layout.html").Funcs(template.FuncMap{"instant": instant, "day": day, "act": actOf})
		if s.pages[name], err = t.ParseFS(templates, "templates/layout.html", "templates/"+name+".html"); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+sandbox.Path+"style.css", serveStyle)
	mux.HandleFunc("GET "+sandbox.Path+"checkout/{session}", s.answer(s.checkout))
	mux.HandleFunc("POST "+sandbox.Path+"checkout/{session}", s.answer(s.pay))
	mux.HandleFunc("GET "+sandbox.Path+"portal/{session}", s.answer(s.portal))
	mux.HandleFunc("POST "+sandbox.Path+"portal/{session}", s.answer(s.act))
	mux.HandleFunc(sandbox.Path, s.answer(func(*http.Request) (view, error) {
		return view{}, problem.New(problem.NotFound, "There is no such page.")
	}))
	return mux, nil
}

// view is a page, or where to go instead.
type view struct {
	page     string
	title    string
	data     any
	redirect string
	wrong    string // why what was asked for did not happen
}

// shown is what a template gets.
type shown struct {
	Title string
	Wrong string
	Data  any
}

func (s site) answer(handle func(*http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "same-origin") // not no-referrer: forms would come from the origin "null"; the address is a secret
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		v, status := s.view(w, r, handle)
		if v.redirect != "" {
			http.Redirect(w, r, v.redirect, http.StatusSeeOther)
			return
		}
		var b bytes.Buffer
		if err := s.pages[v.page].Execute(&b, shown{v.title, v.wrong, v.data}); err != nil {
			s.log.ErrorContext(r.Context(), "page failed", "error", err.Error())
			http.Error(w, "The fault is ours.", http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write(b.Bytes())
	}
}

func (s site) view(w http.ResponseWriter, r *http.Request, handle func(*http.Request) (view, error)) (v view, status int) {
	const failed = "That did not work"
	if s.origins.Check(r) != nil {
		return view{page: "refused", title: failed, data: "Your browser says that another site sent this form. Open the page again."}, http.StatusForbidden
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		return view{page: "refused", title: failed, data: "The form could not be read."}, http.StatusBadRequest
	}
	v, err := handle(r)
	switch {
	case err != nil:
		e := problem.Of(err)
		status = e.Code.Status()
		if status >= http.StatusInternalServerError {
			s.log.ErrorContext(r.Context(), "page failed", "error", err.Error())
			return view{page: "refused", title: failed, data: "The sandbox does not answer at the moment. Try again shortly."}, status
		}
		return view{page: "refused", title: failed, data: e.Message}, status
	case v.wrong != "":
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
	session, err := s.processor.Session(r.Context(), sandbox.Checkout, r.PathValue("session"))
	if err != nil {
		return view{}, err
	}
	v := view{page: "checkout", title: "Buy " + session.Plan, data: session}
	if r.URL.Query().Has("declined") && session.Bought != nil && session.Bought.Status == sandbox.Incomplete {
		v.wrong = "The card was declined. Nothing was paid."
	}
	return v, nil
}

func (s site) pay(r *http.Request) (view, error) {
	declines := r.PostForm.Get("card") == "declined"
	session, err := s.processor.Session(r.Context(), sandbox.Checkout, r.PathValue("session"))
	if err == nil {
		err = s.processor.Pay(r.Context(), session.ID, declines)
	}
	if err != nil || !declines {
		return view{redirect: session.ReturnURL + "?checkout=done"}, err
	}
	return view{redirect: r.URL.Path + "?declined"}, nil
}

func (s site) portal(r *http.Request) (view, error) {
	session, err := s.processor.Session(r.Context(), sandbox.Portal, r.PathValue("session"))
	return view{page: "portal", title: "Card and invoices", data: session}, err
}

func (s site) act(r *http.Request) (view, error) {
	id, form := r.PathValue("session"), r.PostForm
	var err error
	switch act := form.Get("act"); act {
	case "card-works", "card-declines":
		err = s.processor.SetCard(r.Context(), id, act == "card-declines")
	default:
		days, _ := strconv.Atoi(strings.TrimSpace(form.Get("days"))) // what is no number is no number of days either
		err = s.processor.Do(r.Context(), id, form.Get("subscription"), sandbox.Act(act), days)
	}
	if problem.Of(err).Code == problem.InvalidParameter {
		v, failed := s.portal(r)
		v.wrong = problem.Of(err).Message
		return v, failed
	}
	return view{redirect: r.URL.Path}, err
}

// instant is a moment to the second, as people and programs read it.
func instant(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339Nano), t.Format("2 January 2006, 15:04:05 UTC"))) //nolint:gosec // nothing in it comes from outside
}

func day(t time.Time) string { return t.UTC().Format("2 January 2006") }

// button is one act on a subscription.
type button struct {
	Subscription string
	Act          sandbox.Act
	Text         string
	Danger       bool
}

func actOf(s sandbox.Subscription, act sandbox.Act, text string) button {
	return button{s.ID, act, text, act == sandbox.Cancel || act == sandbox.Refund || act == sandbox.DisputeIt}
}
