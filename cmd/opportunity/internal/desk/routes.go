package desk

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
)

// visit is a request to a handler.
type visit struct {
	*http.Request

	Session session         // zero on open pages
	client  adminapi.Client // acts for the person who signed in
	now     time.Time
	w       http.ResponseWriter
}

// The prefix ensures that only this host can set the cookie, over HTTPS or on this machine.
const (
	sessionCookie = "__Host-desk"
	keysCookie    = "__Host-desk-keys" // "off" if single keys must not act
)

// Names of what a session keeps for the next page.
const (
	keptUndo   = "undo"
	keptUpload = "upload"
)

const (
	maxForm = 2 << 20  // bytes; an edit of a listing with every text at its limit has less
	maxFile = 64 << 20 // bytes, held in memory
)

// route is a page or a form. The gateway enforces roles with every call; the desk only hides what a
// role cannot use.
type route struct {
	pattern string
	open    bool  // needs no session
	maxBody int64 // in bytes; 0 means maxForm
	handle  func(*Desk, *visit) (view, error)
}

func routes() []route {
	all := []route{
		{pattern: "GET /{$}", handle: (*Desk).home},
		{pattern: "GET /sign-in", open: true, handle: (*Desk).showSignIn},
		{pattern: "POST /sign-in", open: true, handle: (*Desk).signInWithToken},
		{pattern: "GET /sign-in/once", open: true, handle: (*Desk).showOnce},
		{pattern: "POST /sign-in/once", open: true, handle: (*Desk).signInOnce},
		{pattern: "POST /sign-out", handle: (*Desk).signOut},
		{pattern: "GET /sessions", handle: (*Desk).showSessions},
		{pattern: "POST /sessions/{id}/end", handle: (*Desk).endSession},
		{pattern: "GET /help", handle: (*Desk).help},
		{pattern: "POST /help/keys", handle: (*Desk).setKeys},

		{pattern: "GET /queue", handle: (*Desk).queue},
		{pattern: "GET /next", handle: func(_ *Desk, v *visit) (view, error) { return next(v) }},
		{pattern: "GET /reviews/{id}", handle: (*Desk).showReview},
		{pattern: "POST /reviews/{id}", handle: (*Desk).submitReview},
		{pattern: "GET /reviews/{id}/open", handle: (*Desk).openPage},
		{pattern: "POST /reviews/{id}/summary", handle: (*Desk).summarize},
		{pattern: "POST /reviews/{id}/draft", handle: (*Desk).saveDraft},
		{pattern: "POST /reviews/{id}/discard", handle: (*Desk).discardDraft},
		{pattern: "POST /reviews/{id}/lease", handle: (*Desk).renewLease},
		{pattern: "POST /reviews/{id}/take-over", handle: (*Desk).takeOver},
		{pattern: "POST /reviews/{id}/skip", handle: (*Desk).skip},
		{pattern: "POST /reviews/{id}/undo", handle: (*Desk).undo},

		{pattern: "GET /candidates", handle: (*Desk).candidates},
		{pattern: "GET /candidates/next", handle: func(_ *Desk, v *visit) (view, error) { return nextCandidate(v) }},
		{pattern: "GET /candidates/publish", handle: (*Desk).askPublishSeveral},
		{pattern: "POST /candidates/publish", handle: (*Desk).publishSeveral},
		{pattern: "GET /freshness", handle: (*Desk).freshness},
		{pattern: "GET /records", handle: (*Desk).records},
		{pattern: "GET /records/{id}", handle: (*Desk).record},
		{pattern: "GET /records/{id}/edit", handle: (*Desk).showEdit},
		{pattern: "POST /records/{id}/edit", handle: (*Desk).edit},
		{pattern: "GET /records/{id}/pages", handle: (*Desk).pageTexts},
		{pattern: "POST /records/{id}/read", handle: (*Desk).readPages},
		{pattern: "GET /withdrawals", handle: (*Desk).withdrawals},
		{pattern: "GET /import", handle: (*Desk).showImport},
		{pattern: "POST /import", maxBody: maxFile, handle: (*Desk).previewImport},
		{pattern: "POST /import/confirm", handle: (*Desk).importFile},

		{pattern: "GET /requests", handle: (*Desk).keyRequests},
		{pattern: "GET /accounts", handle: (*Desk).accounts},
		{pattern: "GET /accounts/{id}", handle: (*Desk).account},
		{pattern: "GET /usage", handle: (*Desk).usage},
		{pattern: "GET /audit", handle: (*Desk).audit},
		{pattern: "GET /audit.csv", handle: (*Desk).auditCSV},
	}
	for name, a := range actions() {
		at := " /" + strings.Replace(name, "/", "/{id}/", 1)
		all = append(all, route{pattern: "GET" + at, handle: a.ask}, route{pattern: "POST" + at, handle: a.act})
	}
	return all
}

// Handler serves the desk.
func (d *Desk) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		if !d.kit.ServeStatic(w, r, r.PathValue("file")) {
			http.NotFound(w, r)
		}
	})
	for _, r := range routes() {
		mux.HandleFunc(r.pattern, d.page(r))
	}
	mux.HandleFunc("/", d.page(route{open: true, handle: func(*Desk, *visit) (view, error) { return notFound(), nil }}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz": // probes send the address of the pod as host
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ready\n"))
		case !d.hosts[r.Host]:
			http.Error(w, "The curation desk does not serve this host. Open "+d.URL()+" instead.", http.StatusMisdirectedRequest)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func (d *Desk) page(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		v := &visit{Request: req, w: w, now: d.Now()}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * time.Minute)) // a call can take one
		d.kit.Serve(w, req, pages.Handler{
			Handle: func() (view, error) { return d.respond(v, r) },
			Layout: func(p pages.Page) any {
				done, _ := d.sessions.Take(v.Session.ID, keptUndo).(*undo)
				if done != nil {
					done.Text, p.Notice = p.Notice, ""
				}
				return shown{Page: p, Undo: done, Session: v.Session, Keys: pages.Cookie(req, keysCookie) != "off"}
			},
			Fail:    func(err error) view { return d.reject(v, err) },
			MaxBody: cmp.Or(r.maxBody, maxForm),
		})
	}
}

func (d *Desk) respond(v *visit, r route) (response view, err error) {
	if !r.open {
		var signedIn bool
		if v.Session, signedIn = d.sessions.Resume(pages.Cookie(v.Request, sessionCookie)); !signedIn {
			to := "/sign-in"
			if v.Method == http.MethodGet && v.URL.Path != "/" { // a page that can be opened again afterwards
				to = pages.WithNext(to, v.URL.RequestURI())
			}
			return view{Redirect: to}, nil
		}
		v.client = d.client(v.Session.Token, v.Session.Name)
	}
	return r.handle(d, v)
}

func (d *Desk) reject(v *visit, err error) view {
	response := view{Template: "error", Title: "Something went wrong", Status: http.StatusInternalServerError,
		Data: "The desk could not complete this request. Go back and try again; what you entered is still there."}
	rejected, failed, unread := new(adminapi.RequestError), new(adminapi.Failure), new(problem.Error)
	switch {
	case errors.As(err, &unread), errors.Is(err, forms.ErrForeign):
		response.Title, response.Status = "This form cannot be read", http.StatusBadRequest
		response.Data = "The form is incomplete or too large. Go back and submit it again."
	case errors.As(err, &rejected) && rejected.Status == http.StatusUnauthorized: // the token was removed or replaced
		d.sessions.End(v.Session.ID)
		d.forget(v)
		v.Session = session{}
		response = signInPage(http.StatusUnauthorized, "", "Your operator token is no longer valid, so you were signed out.")
	case errors.As(err, &rejected) && rejected.Status < http.StatusInternalServerError:
		titles := map[int]string{
			http.StatusForbidden: "Your role, " + v.Session.Role + ", does not allow this", http.StatusNotFound: "Not found"}
		response.Title = cmp.Or(titles[rejected.Status], "This request was rejected")
		response.Status, response.Data = rejected.Status, rejected.Error()
	case errors.As(err, &rejected), errors.As(err, &failed):
		response.Title, response.Status = "Temporarily unavailable", http.StatusServiceUnavailable
		response.Data = "The operator API did not respond as expected. " +
			"Go back and try again in a moment; what you entered is still there."
	}
	if response.Status >= http.StatusInternalServerError && v.Context().Err() == nil {
		d.Log.LogAttrs(v.Context(), slog.LevelError, "page failed", slog.String("path", v.URL.Path),
			slog.String("error", err.Error()))
	}
	return response
}

// call makes a call of the operator API for the person who signed in.
func call[T any](v *visit, route adminapi.Route[T], in adminapi.Input) (T, error) {
	out, _, err := route.Call(v.Context(), v.client, in)
	return out, err
}

// goOn opens the page that next returns, with a notice of what was done before. If next fails, it
// opens the queue, which shows the error.
func goOn(v *visit, done string, next func(*visit) (view, error)) (view, error) {
	response, err := next(v)
	if err != nil {
		response = view{Redirect: "/queue"}
	}
	response.Notice = strings.TrimSpace(done + " " + response.Notice)
	return response, nil
}

// tab is an entry of the navigation.
type tab struct {
	Path, Label string
	roles       []api.Role
}

var (
	curators   = []api.Role{api.RoleAdmin, api.RolePublisher, api.RoleCurator}
	publishers = []api.Role{api.RoleAdmin, api.RolePublisher}
	supporters = []api.Role{api.RoleAdmin, api.RoleSupport}
)

func tabs(role string) (allowed []tab) {
	for _, t := range []tab{
		{"/queue", "Queue", curators},
		{"/candidates", "Candidates", curators},
		{"/records", "Records", curators},
		{"/freshness", "Freshness", curators},
		{"/withdrawals", "Withdrawals", publishers},
		{"/import", "Import", publishers},
		{"/requests", "Key requests", supporters},
		{"/accounts", "Accounts", supporters},
		{"/usage", "Usage", supporters},
		{"/audit", "Audit", api.Roles},
	} {
		if slices.Contains(t.roles, api.Role(role)) {
			allowed = append(allowed, t)
		}
	}
	return allowed
}

func (d *Desk) home(v *visit) (view, error) {
	for _, t := range tabs(v.Session.Role) {
		return view{Redirect: t.Path}, nil
	}
	return view{Redirect: "/help"}, nil
}

func (d *Desk) help(*visit) (view, error) {
	return view{Template: "help", Title: "Keyboard shortcuts"}, nil
}
