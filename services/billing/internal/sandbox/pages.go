package sandbox

import (
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
)

//go:embed templates/*.html
var templates embed.FS

type site struct {
	*pages.Kit

	sandbox *Sandbox
}

// Pages returns a handler for everything below Path: a checkout, and a portal that also moves the
// clock of a subscription. The pages use plain forms without scripts, say that no money moves, and
// accept forms only from the origin of publicURL.
func (s *Sandbox) Pages(publicURL string, log *slog.Logger) (http.Handler, error) {
	kit, err := pages.New(pages.Config{
		Name: "Sandbox", URL: publicURL, Root: strings.TrimSuffix(Path, "/"), Templates: templates, Log: log,
		Funcs: template.FuncMap{"instant": formatTime, "day": formatDay, "button": newButton},
	})
	if err != nil {
		return nil, err
	}
	p := site{kit, s}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"checkout/{session}", p.handler(p.checkout))
	mux.HandleFunc("POST "+Path+"checkout/{session}", p.handler(p.pay))
	mux.HandleFunc("GET "+Path+"portal/{session}", p.handler(p.portal))
	mux.HandleFunc("POST "+Path+"portal/{session}", p.handler(p.portalAction))
	missing := p.handler(func(*http.Request) (pages.View, error) {
		return pages.View{}, problem.New(problem.NotFound, "Page not found.")
	})
	mux.HandleFunc(Path, missing)
	mux.HandleFunc("GET "+Path+"static/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !p.ServeStatic(w, r, r.PathValue("name")) {
			missing(w, r)
		}
	})
	return mux, nil
}

type layout struct{ pages.Page }

// Frame returns the header of the page.
func (l layout) Frame() pages.Frame { return pages.Frame{Name: l.Site, Home: "/account/plan"} }

func (s site) handler(handle func(*http.Request) (pages.View, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Serve(w, r, pages.Handler{
			Handle: func() (pages.View, error) { return handle(r) },
			Layout: func(p pages.Page) any { return layout{p} },
			Fail: func(err error) pages.View {
				e := problem.Of(err)
				v := pages.View{Template: "error", Title: "Something went wrong", Status: e.Code.Status(), Data: e.Message}
				if v.Status >= http.StatusInternalServerError {
					s.Log.ErrorContext(r.Context(), "page failed", "error", err.Error())
					v.Data = "The sandbox is temporarily unavailable. Try again shortly."
				}
				return v
			},
		})
	}
}

func (s site) checkout(r *http.Request) (pages.View, error) {
	session, err := s.sandbox.Session(r.Context(), Checkout, r.PathValue("session"))
	if err != nil {
		return pages.View{}, err
	}
	v := pages.View{Template: "checkout", Title: "Buy " + session.Plan, Data: session}
	if r.URL.Query().Has("declined") && session.Subscription != nil && session.Subscription.Status == Incomplete {
		v = v.Wrong("", "The card was declined. Nothing was paid.")
	}
	return v, nil
}

func (s site) pay(r *http.Request) (pages.View, error) {
	declines := r.PostForm.Get("card") == "declined"
	session, err := s.sandbox.Session(r.Context(), Checkout, r.PathValue("session"))
	if err == nil {
		err = s.sandbox.Pay(r.Context(), session.ID, declines)
	}
	if err != nil || !declines {
		return pages.View{LeaveTo: session.SuccessURL}, err
	}
	return pages.View{Redirect: r.URL.Path + "?declined"}, nil
}

func (s site) portal(r *http.Request) (pages.View, error) {
	session, err := s.sandbox.Session(r.Context(), Portal, r.PathValue("session"))
	return pages.View{Template: "portal", Title: "Card and invoices", Data: session}, err
}

func (s site) portalAction(r *http.Request) (pages.View, error) {
	id, form := r.PathValue("session"), r.PostForm
	var err error
	switch action := form.Get("act"); action {
	case "card-works", "card-declines":
		err = s.sandbox.SetCard(r.Context(), id, action == "card-declines")
	default:
		err = s.sandbox.Perform(r.Context(), id, form.Get("subscription"), Action(action))
	}
	if e := problem.Of(err); e.Code == problem.InvalidParameter {
		v, portalErr := s.portal(r)
		return v.Wrong("", e.Message), portalErr
	}
	return pages.View{Redirect: r.URL.Path}, err
}

// formatTime formats a time to the second, with a machine-readable form.
func formatTime(t time.Time) template.HTML {
	t = t.UTC()
	text := t.Format("2 January 2006, 15:04:05 UTC")
	//nolint:gosec // contains no user input
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339Nano), text))
}

func formatDay(t time.Time) string { return t.UTC().Format("2 January 2006") }

type button struct {
	Subscription string
	Action       Action
	Text         string
	Danger       bool
}

func newButton(s Subscription, action Action, text string) button {
	return button{s.ID, action, text, action == Cancel}
}
