package pages_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/pages"
)

const publicURL = "https://api.example"

// site is a site under /account with one template and a handler that returns what the test sets.
type site struct {
	t    *testing.T
	kit  *pages.Kit
	log  bytes.Buffer
	view pages.View
	err  error

	cookies []*http.Cookie
}

// layout is the data of the layout.
type layout struct{ pages.Page }

// Frame returns a header with one link.
func (layout) Frame() pages.Frame {
	return pages.Frame{Name: "Site", Home: "/", Links: []pages.Link{{Path: "/docs", Label: "Docs"}},
		Scripts: []string{"time.js"}}
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t}
	kit, err := pages.New(pages.Config{
		Name: "Site", URL: publicURL, Root: "/account", Cookies: http.SameSiteLaxMode,
		Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Templates: fstest.MapFS{
			"templates/shown.html": {Data: []byte(`{{define "content"}}<h1>{{.Title}}</h1><input {{.Aria "name" ` +
				`"hint"}}>{{end}}`)},
			"templates/error.html":  {Data: []byte(`{{define "content"}}<h1>{{.Title}}</h1>{{.Data}}{{end}}`)},
			"templates/blocks.html": {Data: []byte(`{{define "warnings"}}A warning.{{end}}`)},
		},
	})
	require.NoError(t, err)
	s.kit = kit
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.kit.Serve(w, r, pages.Handler{
		Handle: func() (pages.View, error) {
			if s.view.Title == "panic" {
				panic("db.internal")
			}
			return s.view, s.err
		},
		Layout: func(p pages.Page) any { return layout{p} },
		Fail: func(err error) pages.View {
			s.kit.Log.Error("page failed", "error", err.Error())
			return pages.View{Template: "error", Title: "Something went wrong", Status: http.StatusInternalServerError}
		},
	})
}

func (s *site) send(method string, form url.Values, header http.Header) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, "/account/x", strings.NewReader(form.Encode()))
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range s.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s *site) get(view pages.View) *httptest.ResponseRecorder {
	s.t.Helper()
	s.view = view
	return s.send(http.MethodGet, nil, nil)
}

func TestEveryResponseHasTheHeaders(t *testing.T) {
	s := newSite(t)
	for _, view := range []pages.View{{Template: "shown"}, {Template: "none"}, {Redirect: "/account"}} {
		h := s.get(view).Header()
		require.Equal(t, "no-store", h.Get("Cache-Control"))
		require.Equal(t, "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src "+
			"'self'; form-action 'self'; "+
			"frame-ancestors 'none'; base-uri 'none'", h.Get("Content-Security-Policy"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Opener-Policy"))
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"))
		require.NotEmpty(t, h.Get("Permissions-Policy"))
		require.Equal(t, "max-age=31536000", h.Get("Strict-Transport-Security"))
	}
	pay := s.get(pages.View{Template: "shown", FormsTo: []string{"https://pay.example"}})
	require.Contains(t, pay.Header().Get("Content-Security-Policy"), "form-action 'self' https://pay.example;")
}

func TestPageHasTheLayout(t *testing.T) {
	s := newSite(t)
	body := s.get(pages.View{Template: "shown", Title: "Hello & goodbye"}).Body.String()
	for _, part := range []string{"<title>Hello &amp; goodbye · Site</title>", `href="/docs"`, "A warning.",
		"<h1>Hello &amp; goodbye</h1>", `class="narrow"`} {
		require.Contains(t, body, part)
	}
	found := regexp.MustCompile(`(?:href|src)="/account/static/([^"]+)"`).FindAllStringSubmatch(body, -1)
	require.GreaterOrEqual(t, len(found), 3)
	for _, f := range found {
		w := httptest.NewRecorder()
		require.True(t, s.kit.ServeStatic(w, httptest.NewRequest(http.MethodGet, "/", nil), f[1]))
		require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"))
		require.NotEmpty(t, w.Body.String())
	}
}

func TestFormsOfOtherSitesAreRejected(t *testing.T) {
	s := newSite(t)
	s.view = pages.View{Template: "shown"}
	for _, from := range []http.Header{
		{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}},
		{"Origin": {"null"}},
	} {
		w := s.send(http.MethodPost, url.Values{}, from)
		require.Equal(t, http.StatusForbidden, w.Code)
		require.Contains(t, w.Body.String(), "another site")
	}
	require.Equal(t, http.StatusOK, s.send(http.MethodPost, url.Values{},
		http.Header{"Origin": {publicURL}}).Code)
}

func TestTooLargeFormsAreRejected(t *testing.T) {
	s := newSite(t)
	s.view = pages.View{Template: "shown"}
	big := url.Values{"x": {strings.Repeat("x", 65<<10)}}
	require.Equal(t, http.StatusInternalServerError,
		s.send(http.MethodPost, big, http.Header{"Origin": {publicURL}}).Code)
	require.Contains(t, s.log.String(), "The form could not be read.")
}

func TestNoticeIsShownOnce(t *testing.T) {
	s := newSite(t)
	w := s.get(pages.View{Redirect: "/account", Notice: "It is <done>."})
	require.Equal(t, http.StatusSeeOther, w.Code)
	s.cookies = w.Result().Cookies()
	require.Len(t, s.cookies, 1)
	w = s.get(pages.View{Template: "shown"})
	require.Contains(t, w.Body.String(), "It is &lt;done&gt;.")
	require.Negative(t, w.Result().Cookies()[0].MaxAge)
	s.cookies = nil
	require.NotContains(t, s.get(pages.View{Template: "shown"}).Body.String(), "It is")
	s.cookies = []*http.Cookie{{Name: "__Host-notice", Value: "%%%"}}
	require.Equal(t, http.StatusOK, s.get(pages.View{Template: "shown"}).Code)
}

func TestFormErrorsAreLinkedToTheirFields(t *testing.T) {
	w := newSite(t).get(pages.View{Template: "shown", Title: "Form"}.Wrong("name", "Enter a name."))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	for _, part := range []string{"<title>Error: Form", "There is a problem", `<a href="#name">Enter a name.</a>`,
		`<input aria-invalid="true" aria-describedby="hint name-error">`} {
		require.Contains(t, w.Body.String(), part)
	}
}

func TestFailuresAreLoggedAndNotShown(t *testing.T) {
	s := newSite(t)
	for _, view := range []pages.View{{Title: "panic"}, {Template: "none"}, {Redirect: "//evil.example"}} {
		w := s.get(view)
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.NotContains(t, w.Body.String(), "db.internal")
		require.Empty(t, w.Header().Get("Location"))
	}
	for _, text := range []string{"panic: db.internal", "redirect target is not one of our pages",
		"unknown page template"} {
		require.Contains(t, s.log.String(), text)
	}
}

func TestHeadHasNoBody(t *testing.T) {
	s := newSite(t)
	for _, view := range []pages.View{{Template: "shown"}, {Template: "none"},
		{Stream: func(w io.Writer) error { _, err := io.WriteString(w, "a"); return err }}} {
		s.view = view
		head := s.send(http.MethodHead, nil, nil)
		require.Empty(t, head.Body.String())
		require.Equal(t, s.get(view).Code, head.Code)
	}
}

// A file that ends early must not be taken for a complete one.
func TestFiles(t *testing.T) {
	s := newSite(t)
	file := func(write func(io.Writer) error) pages.View {
		return pages.View{Type: "text/csv", Name: "usage.csv", Stream: write}
	}
	w := s.get(file(func(w io.Writer) error { _, err := io.WriteString(w, "a,b\r\n"); return err }))
	require.Equal(t, "a,b\r\n", w.Body.String())
	require.Equal(t, `attachment; filename="usage.csv"`, w.Header().Get("Content-Disposition"))
	w = s.get(file(func(io.Writer) error { return errors.New("refused") }))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Empty(t, w.Header().Get("Content-Disposition"))
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		s.get(file(func(w io.Writer) error { _, _ = io.WriteString(w, "a,b\r\n"); return errors.New("refused") }))
	})
}

func TestOnlyOurOwnPathsAreRedirectedTo(t *testing.T) {
	s := newSite(t)
	for _, own := range []string{"/account", "/account/keys", "/account/usage?day=2026-11-20",
		"/account/security/confirm?next=%2Faccount"} {
		require.True(t, s.kit.Own(own), own)
	}
	for _, other := range []string{
		"", "/", "account", "/accounts", "/docs", "//evil.example/account", "https://evil.example/account",
		"/\\evil.example/account",
		"/account/../docs", "/account//evil", "/account/%2e%2e/docs", "\t/account", "/account\n", "javascript:alert(1)",
		"/account#x",
		"https:/account", "//account/x", "/account\\..\\", "http:account",
	} {
		require.False(t, s.kit.Own(other), other)
	}
}

func FuzzOwn(f *testing.F) {
	f.Add("/account/keys?x=y")
	f.Add("//evil.example")
	kit, err := pages.New(pages.Config{URL: publicURL, Root: "/account", Templates: fstest.MapFS{}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, target string) {
		if kit.Own(target) {
			require.True(t, strings.HasPrefix(target, "/account"), target)
			require.NotContains(t, target, "\\")
		}
	})
}

func load(t *testing.T, body string) pages.Files {
	t.Helper()
	files, err := pages.Load(fstest.MapFS{"static/own.js": {Data: []byte(body)}}, "static")
	require.NoError(t, err)
	return files
}

func TestServedNameChangesWithContent(t *testing.T) {
	one, err := load(t, "1").Name("own.js")
	require.NoError(t, err)
	two, err := load(t, "2").Name("own.js")
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`^own\.[0-9a-f]{8}\.js$`), one)
	require.NotEqual(t, one, two)
	_, err = load(t, "1").Name("other.js")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFilesAreServedUnderTheirServedNamesOnly(t *testing.T) {
	files := load(t, "own")
	shared, err := files.Name("style.css")
	require.NoError(t, err)
	own, err := files.Name("own.js")
	require.NoError(t, err)
	for name, kind := range map[string]string{shared: "text/css; charset=utf-8", own: "text/javascript; charset=utf-8"} {
		w := httptest.NewRecorder()
		require.True(t, files.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), name))
		require.Equal(t, kind, w.Header().Get("Content-Type"))
		require.NotEmpty(t, w.Body.String())
		w = httptest.NewRecorder()
		require.True(t, files.Serve(w, httptest.NewRequest(http.MethodHead, "/", nil), name))
		require.Empty(t, w.Body.String())
	}
	for _, name := range []string{"own.js", "own.00000000.js", "", "../static.go"} {
		w := httptest.NewRecorder()
		require.False(t, files.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), name), name)
		require.Empty(t, w.Header(), name)
	}
}
