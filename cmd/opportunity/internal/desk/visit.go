package desk

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"opportunity.internal/cmd/opportunity/internal/desk/session"
	"opportunity.internal/cmd/opportunity/internal/operator"
)

// visit is a request to a handler.
type visit struct {
	*http.Request

	Session session.Session // zero on open pages
	client  operator.Client // acts for the person who signed in
	now     time.Time
	w       http.ResponseWriter
}

// The prefix ensures that only this host can set the cookie, over HTTPS or on this machine.
const (
	sessionCookie = "__Host-desk"
	keysCookie    = "__Host-desk-keys" // "off" if single keys must not act
)

const (
	maxForm = 2 << 20  // bytes; an edit of a listing with every text at its limit has less
	maxFile = 64 << 20 // bytes, held in memory
)

func (v *visit) cookie(name string) string {
	c, err := v.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie: a session cookie if life is 0. A negative life deletes it.
func (v *visit) setCookie(name, value string, life time.Duration) {
	http.SetCookie(v.w, &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(life / time.Second),
	})
}

// signedIn stores the cookie of a new session.
func (v *visit) signedIn(cookie string) { v.setCookie(sessionCookie, cookie, session.Life) }

// forget deletes the session cookie.
func (v *visit) forget() { v.setCookie(sessionCookie, "", -time.Second) }

// address returns the IP address of the connection: of the browser, or of a proxy in front of the desk.
func (v *visit) address() string {
	ip, _, err := net.SplitHostPort(v.RemoteAddr)
	if err != nil {
		return v.RemoteAddr
	}
	return ip
}

// nextPage returns the page to continue to after signing in.
func (v *visit) nextPage() string {
	if to := v.FormValue("next"); ownPath(to) {
		return to
	}
	return "/" // the first page that the role can use
}

// ownPath reports whether target is a path of the desk, however browsers interpret unusual characters.
func ownPath(target string) bool {
	u, err := url.Parse(target)
	return err == nil && !strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) &&
		u.Scheme == "" && u.Host == "" && u.User == nil && u.Opaque == "" && strings.HasPrefix(u.Path, "/") && path.Clean(u.Path) == u.Path
}

// Handler serves the desk.
func (d *Desk) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		if !d.files.Serve(w, r, r.PathValue("file")) {
			http.NotFound(w, r)
		}
	})
	for _, r := range routes() {
		mux.HandleFunc(r.pattern, d.page(r))
	}
	mux.HandleFunc("/", d.page(route{open: true, handle: func(*Desk, *visit) (view, error) { return notFound(), nil }}))
	pages := d.guard(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" { // probes send the address of the pod as host
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ready\n"))
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// guard rejects requests under foreign host names and forms of other sites, and sets the headers of every page.
func (d *Desk) guard(pages http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	_ = origins.AddTrustedOrigin(d.URL()) // addresses has validated it
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Another site sent this form. Open the page on the desk and submit it again.", http.StatusForbidden)
	}))
	protected := origins.Handler(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range d.headers {
			w.Header().Set(name, value)
		}
		if !d.hosts[r.Host] {
			http.Error(w, "The curation desk does not serve this host. Open "+d.URL()+" instead.", http.StatusMisdirectedRequest)
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// page adapts a route to HTTP. It is the only code that writes pages.
func (d *Desk) page(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		v := &visit{Request: req, w: w, now: d.Now().UTC()}
		response, err := d.respond(v, r)
		if err == nil {
			err = d.write(v, response)
		}
		if err != nil {
			d.reject(v, err)
		}
	}
}

func (d *Desk) respond(v *visit, r route) (response view, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	limit := int64(maxForm)
	if r.file {
		limit = maxFile
	}
	v.Body = http.MaxBytesReader(v.w, v.Body, limit)
	if v.Method == http.MethodPost && !r.file {
		if err := v.ParseForm(); err != nil {
			return view{Template: "error", Title: "This form cannot be read", Status: http.StatusBadRequest,
				Data: "The form is incomplete or too large. Go back and submit it again."}, nil
		}
	}
	if !r.open {
		var signedIn bool
		if v.Session, signedIn = d.sessions.Resume(v.cookie(sessionCookie)); !signedIn {
			return signIn(v), nil
		}
		v.client = d.client(v.Session.Token, v.Session.Name)
	}
	return r.handle(d, v)
}

// signIn sends the visitor to the sign-in page, and back to this page afterwards if it can be opened again.
func signIn(v *visit) view {
	to := "/sign-in"
	if v.Method == http.MethodGet && v.URL.Path != "/" {
		to += "?" + url.Values{"next": {v.URL.RequestURI()}}.Encode()
	}
	return view{Redirect: to}
}

// reject shows an error as a page.
func (d *Desk) reject(v *visit, err error) {
	response := view{Template: "error", Title: "Something went wrong", Status: http.StatusInternalServerError,
		Data: "The desk could not complete this request. Go back and try again; what you entered is still there."}
	rejected, failed := new(operator.RequestError), new(operator.Failure)
	switch {
	case errors.As(err, &rejected) && rejected.Status == http.StatusUnauthorized: // the token was removed or replaced
		d.sessions.End(v.Session.ID)
		v.forget()
		v.Session = session.Session{}
		response = signInPage(http.StatusUnauthorized, "", "Your operator token is no longer valid, so you were signed out.")
	case errors.As(err, &rejected) && rejected.Status == http.StatusForbidden:
		response.Title, response.Data = "Your role does not allow this", rejected.Reason+" Your role is "+v.Session.Role+"."
	case errors.As(err, &rejected) && rejected.Status == http.StatusNotFound:
		response.Title, response.Data = "Not found", rejected.Reason
	case errors.As(err, &rejected) && rejected.Status < http.StatusInternalServerError:
		response.Title, response.Data = "This request was rejected", rejected.Reason
	case errors.As(err, &rejected), errors.As(err, &failed):
		response.Title, response.Status = "Temporarily unavailable", http.StatusServiceUnavailable
		response.Data = "The operator API did not respond as expected. Go back and try again in a moment; what you entered is still there."
	}
	if rejected.Status >= 400 && rejected.Status < 500 && rejected.Status != http.StatusUnauthorized {
		response.Status = rejected.Status
	}
	if response.Status >= http.StatusInternalServerError && v.Context().Err() == nil {
		d.Log.LogAttrs(v.Context(), slog.LevelError, "page failed", slog.String("path", v.URL.Path), slog.String("error", err.Error()))
	}
	if err := d.write(v, response); err != nil {
		http.Error(v.w, "Something went wrong.", http.StatusInternalServerError)
	}
}
