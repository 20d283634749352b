package desk

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
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

// reject returns the page of an error.
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
