// Package pages serves the sandbox's web pages: a checkout, and a portal that also offers what banks and operators do at a real processor.
// The pages use plain forms without scripts and say that no money moves.
package pages

import (
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	kit "opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/sandbox"
)

//go:embed templates/*.html
var templates embed.FS

// site holds the dependencies of the handlers.
type site struct {
	*kit.Kit

	sandbox *sandbox.Sandbox
}

// New returns a handler for everything below sandbox.Path. It accepts forms only from the origin of publicURL.
func New(processor *sandbox.Sandbox, publicURL string, log *slog.Logger) (http.Handler, error) {
	pages, err := kit.New(kit.Config{
		Name: "Sandbox", URL: publicURL, Root: strings.TrimSuffix(sandbox.Path, "/"), Templates: templates, Log: log,
		Funcs: template.FuncMap{"instant": formatTime, "day": formatDay, "button": newButton},
	})
	if err != nil {
		return nil, err
	}
	s := site{pages, processor}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+sandbox.Path+"checkout/{session}", s.handler(s.checkout))
	mux.HandleFunc("POST "+sandbox.Path+"checkout/{session}", s.handler(s.pay))
	mux.HandleFunc("GET "+sandbox.Path+"portal/{session}", s.handler(s.portal))
	mux.HandleFunc("POST "+sandbox.Path+"portal/{session}", s.handler(s.portalAction))
	missing := s.handler(func(*http.Request) (kit.View, error) {
		return kit.View{}, problem.New(problem.NotFound, "Page not found.")
	})
	mux.HandleFunc(sandbox.Path, missing)
	mux.HandleFunc("GET "+sandbox.Path+"static/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !s.ServeStatic(w, r, r.PathValue("name")) {
			missing(w, r)
		}
	})
	return mux, nil
}

// layout is the data of the layout.
type layout struct{ kit.Page }

// Frame returns the header of the page.
func (l layout) Frame() kit.Frame { return kit.Frame{Name: l.Site, Home: "/account/plan"} }

func (s site) handler(handle func(*http.Request) (kit.View, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Serve(w, r, kit.Handler{
			Handle: func() (kit.View, error) { return handle(r) },
			Layout: func(p kit.Page) any { return layout{p} },
			Fail: func(err error) kit.View {
				e := problem.Of(err)
				v := kit.View{Template: "error", Title: "Something went wrong", Status: e.Code.Status(), Data: e.Message}
				if v.Status >= http.StatusInternalServerError {
					s.Log.ErrorContext(r.Context(), "page failed", "error", err.Error())
					v.Data = "The sandbox is temporarily unavailable. Try again shortly."
				}
				return v
			},
		})
	}
}

func (s site) checkout(r *http.Request) (kit.View, error) {
	session, err := s.sandbox.Session(r.Context(), sandbox.Checkout, r.PathValue("session"))
	if err != nil {
		return kit.View{}, err
	}
	v := kit.View{Template: "checkout", Title: "Buy " + session.Plan, Data: session}
	if r.URL.Query().Has("declined") && session.Subscription != nil && session.Subscription.Status == sandbox.Incomplete {
		v = v.Wrong("", "The card was declined. Nothing was paid.")
	}
	return v, nil
}

func (s site) pay(r *http.Request) (kit.View, error) {
	declines := r.PostForm.Get("card") == "declined"
	session, err := s.sandbox.Session(r.Context(), sandbox.Checkout, r.PathValue("session"))
	if err == nil {
		err = s.sandbox.Pay(r.Context(), session.ID, declines)
	}
	if err != nil || !declines {
		return kit.View{LeaveTo: session.SuccessURL}, err
	}
	return kit.View{Redirect: r.URL.Path + "?declined"}, nil
}

func (s site) portal(r *http.Request) (kit.View, error) {
	session, err := s.sandbox.Session(r.Context(), sandbox.Portal, r.PathValue("session"))
	return kit.View{Template: "portal", Title: "Card and invoices", Data: session}, err
}

func (s site) portalAction(r *http.Request) (kit.View, error) {
	id, form := r.PathValue("session"), r.PostForm
	var err error
	switch action := form.Get("act"); action {
	case "card-works", "card-declines":
		err = s.sandbox.SetCard(r.Context(), id, action == "card-declines")
	default:
		days, _ := strconv.Atoi(strings.TrimSpace(form.Get("days"))) // 0 if not a number, which is out of range
		err = s.sandbox.Perform(r.Context(), id, form.Get("subscription"), sandbox.Action(action), days)
	}
	if e := problem.Of(err); e.Code == problem.InvalidParameter {
		v, portalErr := s.portal(r)
		return v.Wrong("", e.Message), portalErr
	}
	return kit.View{Redirect: r.URL.Path}, err
}

// formatTime formats a time to the second, with a machine-readable form.
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
