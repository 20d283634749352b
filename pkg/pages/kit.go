// Package pages serves the HTML pages of a site: one layout, static files, forms, cookies, notices
// and security headers. The account pages, the sandbox and the desk use all of it; the
// documentation uses its frame, its style and its headers.
//
// Handlers never write the response. They return a View or an error, which a Kit writes. All pages
// work without JavaScript.
package pages

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"opportunity.internal/pkg/problem"
)

// maxForm is the default limit of a form in bytes.
const maxForm = 64 << 10

// Config describes a site.
type Config struct {
	Name      string // of the site
	URL       string // public URL without a trailing slash
	Root      string // path above all pages, such as /account; empty if the site has the whole host
	Cookies   http.SameSite
	Static    fs.FS            // directory static: files of the site's own; nil if there are none
	Templates fs.FS            // directory templates: one file for each page, and blocks.html, which all pages share
	Funcs     template.FuncMap // functions of the templates, beside asset
	Log       *slog.Logger
}

// Kit serves the pages of a site.
type Kit struct {
	Config

	templates map[string]*template.Template
	files     Files
	origins   *http.CrossOriginProtection
	headers   map[string]string
}

// New parses the templates of a site. Each page has the layout of this package with its template
// "content".
func New(c Config) (*Kit, error) {
	k := &Kit{Config: c, templates: map[string]*template.Template{}, origins: http.NewCrossOriginProtection()}
	public, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	if err := k.origins.AddTrustedOrigin(public.Scheme + "://" + public.Host); err != nil {
		return nil, err
	}
	k.headers = Headers(public.Scheme == "https")
	if k.files, err = Load(c.Static, "static"); err != nil {
		return nil, err
	}
	return k, k.parse()
}

func (k *Kit) parse() error {
	layout, err := template.New("layout.html").Funcs(template.FuncMap{"asset": k.asset}).Funcs(k.Funcs).ParseFS(layouts,
		"layout/*.html")
	if err != nil {
		return err
	}
	names, err := fs.Glob(k.Templates, "templates/*.html")
	if err != nil {
		return err
	}
	const blocks = "templates/blocks.html"
	if _, err := fs.Stat(k.Templates, blocks); err == nil {
		if layout, err = layout.ParseFS(k.Templates, blocks); err != nil {
			return err
		}
	}
	for _, name := range names {
		if name == blocks {
			continue
		}
		t, err := layout.Clone()
		if err == nil {
			t, err = t.ParseFS(k.Templates, name)
		}
		if err != nil {
			return err
		}
		k.templates[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return nil
}

func (k *Kit) asset(name string) (string, error) {
	served, err := k.files.Name(name)
	return k.Root + "/static/" + served, err
}

// ServeStatic serves the static file whose path, below Root and /static, is name. It returns false
// if there is none.
func (k *Kit) ServeStatic(w http.ResponseWriter, r *http.Request, name string) bool {
	return k.files.Serve(w, r, name)
}

// Handler handles a request.
type Handler struct {
	Handle func() (View, error)
	Layout func(Page) any   // adds what the layout and the templates of this site show
	Fail   func(error) View // logs an error and returns its page

	MaxBody int64 // of the request, in bytes; 0 means 64 KiB
}

// Serve handles a request and writes the response. Forms of other sites are rejected.
func (k *Kit) Serve(w http.ResponseWriter, r *http.Request, h Handler) {
	for name, value := range k.headers {
		w.Header().Set(name, value)
	}
	shown, err := k.call(w, r, h)
	if err == nil {
		err = k.write(w, r, h, shown)
	}
	if err == nil {
		return
	}
	if err := k.write(w, r, h, h.Fail(err)); err != nil {
		k.Log.LogAttrs(r.Context(), slog.LevelError, "page failed", slog.String("error", err.Error()))
		http.Error(w, "Something went wrong.", http.StatusInternalServerError)
	}
}

// call checks the origin and the form of a request before it calls the handler. It returns a panic
// as an error.
func (k *Kit) call(w http.ResponseWriter, r *http.Request, h Handler) (shown View, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	if err := k.origins.Check(r); err != nil {
		return View{
			Template: "error", Title: "This form came from another site", Status: http.StatusForbidden,
			Data: "Your browser reports that another site sent this form. Reload the page and submit it again.",
		}, nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, cmp.Or(h.MaxBody, maxForm))
	if err := r.ParseForm(); err != nil {
		return View{}, problem.New(problem.InvalidParameter, "The form could not be read.").Because(err)
	}
	return h.Handle()
}

func (k *Kit) write(w http.ResponseWriter, r *http.Request, h Handler, shown View) error {
	for name, values := range shown.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	switch {
	case shown.LeaveTo != "":
		redirect(w, shown.LeaveTo)
		return nil
	case shown.Redirect != "":
		if !k.Own(shown.Redirect) {
			return errors.New("redirect target is not one of our pages")
		}
		if shown.Notice != "" {
			k.leaveNotice(w, shown.Notice)
		}
		redirect(w, shown.Redirect)
		return nil
	case shown.Stream != nil:
		return stream(w, r, shown)
	case shown.Template == "":
		w.WriteHeader(shown.status())
		return nil
	}
	if shown.Notice == "" {
		shown.Notice = k.takeNotice(w, r)
	}
	body, err := k.render(r, h, shown)
	if err != nil {
		return err
	}
	if len(shown.FormsTo) > 0 {
		w.Header().Set("Content-Security-Policy", Policy(shown.FormsTo...))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(shown.status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) //nolint:gosec // of html/template
	}
	return nil
}

func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

func (k *Kit) render(r *http.Request, h Handler, shown View) ([]byte, error) {
	t := k.templates[shown.Template]
	if t == nil {
		return nil, fmt.Errorf("unknown page template %q", shown.Template)
	}
	var b bytes.Buffer
	err := t.ExecuteTemplate(&b, "layout.html", h.Layout(Page{
		Site: k.Name, Title: shown.Title, Path: r.URL.Path, Notice: shown.Notice, Errors: shown.Errors, Data: shown.Data,
	}))
	if err == nil {
		k.Log.LogAttrs(r.Context(), slog.LevelDebug, "page", slog.String("template", shown.Template))
	}
	return b.Bytes(), err
}

// stream writes a file of unknown length. An error before the first byte is shown as a page.
func stream(w http.ResponseWriter, r *http.Request, file View) error {
	w.Header().Set("Content-Type", file.Type)
	if file.Name != "" {
		w.Header().Set("Content-Disposition", `attachment; filename="`+file.Name+`"`)
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	out := &started{w: w}
	err := file.Stream(out)
	if err != nil && out.written {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		w.Header().Del("Content-Disposition")
	}
	return err
}

// started notes whether something was written.
type started struct {
	w       http.ResponseWriter
	written bool
}

func (s *started) Write(p []byte) (int, error) {
	s.written = true
	return s.w.Write(p)
}

// noticeCookie has the notice for the next page. The prefix ensures that only this host can set it,
// over HTTPS or on this machine.
const noticeCookie = "__Host-notice"

// Cookie returns the value of a cookie, or an empty string.
func Cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// SetCookie sets a cookie for this host: a session cookie if life is 0. A negative life deletes it.
// name must start with __Host-.
func (k *Kit) SetCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // SameSite is Lax or Strict
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: k.Cookies,
		MaxAge: int(life / time.Second),
	})
}

func (k *Kit) leaveNotice(w http.ResponseWriter, text string) {
	k.SetCookie(w, noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(text)), time.Minute)
}

func (k *Kit) takeNotice(w http.ResponseWriter, r *http.Request) string {
	value := Cookie(r, noticeCookie)
	if value == "" {
		return ""
	}
	k.SetCookie(w, noticeCookie, "", -time.Second)
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// Under reports whether path belongs to the site.
func (k *Kit) Under(path string) bool {
	return path == k.Root || strings.HasPrefix(path, k.Root+"/")
}

// Own reports whether target leads to a page of the site, however browsers interpret unusual
// characters.
func (k *Kit) Own(target string) bool {
	if strings.ContainsFunc(target, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return false
	}
	u, err := url.Parse(target)
	return err == nil && u.Scheme == "" && u.Host == "" && u.User == nil && u.Opaque == "" && u.Fragment == "" &&
		k.Under(u.Path) && path.Clean(u.Path) == u.Path
}

// WithNext adds next, the page to continue to, to the query of a path. It returns the path alone if
// next is empty.
func WithNext(path, next string) string {
	if next == "" {
		return path
	}
	return path + "?" + url.Values{"next": {next}}.Encode()
}
