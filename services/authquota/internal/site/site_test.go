package site_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

// start returns a site with a page of each access level, and pages for the responses of a handler.
func start(t *testing.T) *sitetest.Site {
	t.Helper()
	show := func(*site.Visit) (site.View, error) { return site.View{Template: "shown", Title: "Shown"}, nil }
	reply := func(view site.View, err error) site.Handler {
		return func(*site.Visit) (site.View, error) { return view, err }
	}
	file := func(write func(io.Writer) error) site.View {
		return site.View{Type: "text/csv", Name: "usage.csv", Stream: write}
	}
	return sitetest.New(t, func(*sitetest.Site) []site.Feature {
		return []site.Feature{{
			Templates: fstest.MapFS{"templates/shown.html": {Data: []byte(`{{define "content"}}<h1>{{.Title}}</h1><input {{.Aria "name" "hint"}}>{{end}}`)}},
			Routes: []site.Route{
				site.Get("/account", site.Open, show),
				site.Get("/account/open", site.Open, show),
				site.Get("/account/halfway", site.Halfway, show),
				site.Get("/account/signed-in", site.SignedIn, show),
				site.Get("/account/recent", site.Recent, show),
				site.Post("/account/recent/:id/act", site.Recent, show),
				site.Get("/account/wrong", site.Open, reply(site.View{Template: "shown", Title: "Form"}.Wrong("name", "Enter a name."), nil)),
				site.Get("/account/done", site.Open, reply(site.View{Redirect: "/account/open", Notice: "It is done."}, nil)),
				site.Get("/account/away", site.Open, reply(site.View{Redirect: "//evil.example"}, nil)),
				site.Get("/account/pay", site.Open, reply(site.View{Template: "shown", FormsTo: []string{"https://pay.example"}}, nil)),
				site.Get("/account/outage", site.Open, reply(site.View{}, problem.Unavailable(errors.New("db.internal refused")))),
				site.Get("/account/failure", site.Open, reply(site.View{}, errors.New("db.internal refused"))),
				site.Get("/account/panic", site.Open, func(*site.Visit) (site.View, error) { panic("db.internal") }),
				site.Get("/account/file", site.Open, reply(file(func(w io.Writer) error { _, err := io.WriteString(w, "a,b\r\n"); return err }), nil)),
				site.Get("/account/no-file", site.Open, reply(file(func(io.Writer) error { return problem.Unavailable(errors.New("refused")) }), nil)),
				site.Get("/account/part", site.Open, reply(file(func(w io.Writer) error { _, _ = io.WriteString(w, "a,b\r\n"); return errors.New("refused") }), nil)),
			},
		}}
	})
}

func TestEveryResponseHasTheHeaders(t *testing.T) {
	s := start(t)
	for _, p := range []sitetest.Page{
		s.Get("/account").Shows(http.StatusOK), s.Get("/account/no-such-page").Shows(http.StatusNotFound),
		s.Send(http.MethodPut, "/account", nil, nil).Shows(http.StatusMethodNotAllowed), s.Get("/account/failure").Shows(http.StatusInternalServerError),
	} {
		require.Equal(t, "no-store", p.Header.Get("Cache-Control"))
		require.Equal(t, "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "+
			"frame-ancestors 'none'; base-uri 'none'", p.Header.Get("Content-Security-Policy"))
		require.Equal(t, "nosniff", p.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "same-origin", p.Header.Get("Cross-Origin-Opener-Policy"))
		require.Equal(t, "same-origin", p.Header.Get("Referrer-Policy"))
		require.NotEmpty(t, p.Header.Get("Permissions-Policy"))
		require.Equal(t, "max-age=31536000", p.Header.Get("Strict-Transport-Security"))
	}
	require.Contains(t, s.Get("/account/pay").Header.Get("Content-Security-Policy"), "form-action 'self' https://pay.example;")
}

func TestFormsOfOtherSitesAreRejected(t *testing.T) {
	s := start(t)
	const form = "/account/recent/1/act"
	for _, from := range []http.Header{
		{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"null"}},
	} {
		s.Send(http.MethodPost, form, url.Values{}, from).Shows(http.StatusForbidden, "another site")
	}
	s.Send(http.MethodPost, form, url.Values{}, http.Header{"Origin": {sitetest.PublicURL}}).Shows(http.StatusOK)
}

func TestStaticFilesAreImmutable(t *testing.T) {
	s := start(t)
	found := regexp.MustCompile(`(?:href|src)="(/account/static/[^"]+)"`).FindAllStringSubmatch(s.Get("/account").Body, -1)
	require.GreaterOrEqual(t, len(found), 3)
	for _, f := range found {
		p := s.Get(f[1])
		require.Equal(t, http.StatusOK, p.Status)
		require.Equal(t, "public, max-age=31536000, immutable", p.Header.Get("Cache-Control"))
		require.NotEmpty(t, p.Body)
		require.Empty(t, p.Header.Values("Set-Cookie"))
	}
	s.Get("/account/static/style.css").Shows(http.StatusNotFound)
}

func TestAccessLevels(t *testing.T) {
	const home = "/account"
	for name, c := range map[string]struct {
		set                             func(s *sitetest.Site)
		open, halfway, signedIn, recent string // target of the redirect; empty if the page is shown
	}{
		"without a session": {func(s *sitetest.Site) { clear(s.Cookies) },
			"", "/account/sign-in", "/account/sign-in?next=%2Faccount%2Fsigned-in", "/account/sign-in?next=%2Faccount%2Frecent"},
		"with an ended session": {func(s *sitetest.Site) { s.Cookies["__Host-session"] = "of yesterday" },
			"", "/account/sign-in", "/account/sign-in?next=%2Faccount%2Fsigned-in", "/account/sign-in?next=%2Faccount%2Frecent"},
		"halfway": {func(s *sitetest.Site) { s.Current.Stage = people.Halfway },
			"", "", "/account/sign-in/code?next=%2Faccount%2Fsigned-in", "/account/sign-in/code?next=%2Faccount%2Frecent"},
		"halfway, before the set-up": {func(s *sitetest.Site) { s.Current.Stage, s.Person.AuthenticatorConfirmed = people.Halfway, false },
			"", "", "/account/authenticator", "/account/authenticator"},
		"full, after the authenticator was removed": {func(s *sitetest.Site) { s.Person.AuthenticatorConfirmed = false },
			"", "", "/account/authenticator", "/account/authenticator"},
		"full": {func(*sitetest.Site) {}, "", home, "", ""},
		"full, ten minutes after the last proof": {func(s *sitetest.Site) { s.Now = s.Now.Add(people.RecentProof) },
			"", home, "", "/account/security/confirm?next=%2Faccount%2Frecent"},
		"full, with the previous secret": {func(s *sitetest.Site) { s.Current.Superseded = true },
			"", home, "", "/account/security/confirm?next=%2Faccount%2Frecent"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			c.set(s)
			for path, target := range map[string]string{"open": c.open, "halfway": c.halfway, "signed-in": c.signedIn, "recent": c.recent} {
				if p := s.Get("/account/" + path); target == "" {
					p.Shows(http.StatusOK, "Shown")
				} else {
					p.Leads(target)
				}
			}
		})
	}
}

// A form cannot be submitted again after a proof, so the person returns to the closest page that can be opened.
func TestFormContinuesAtItsPageAfterAProof(t *testing.T) {
	s := start(t)
	s.Now = s.Now.Add(time.Hour)
	s.Post("/account/recent/1/act").Leads("/account/security/confirm?next=%2Faccount%2Frecent")
	s.Get("/account/recent?a=b&c=d").Leads("/account/security/confirm?next=%2Faccount%2Frecent%3Fa%3Db%26c%3Dd")
}

func TestSessionStoreOutageIsUnavailable(t *testing.T) {
	s := start(t)
	s.Outage = problem.Unavailable(errors.New("db.internal refused"))
	p := s.Get("/account/signed-in").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	require.NotContains(t, p.Body, "db.internal")
	s.Get("/account/open").Shows(http.StatusOK)
}

func TestNoticeIsShownOnce(t *testing.T) {
	s := start(t)
	s.Get("/account/done").Leads("/account/open")
	s.Get("/account/open").Shows(http.StatusOK, "It is done.")
	require.NotContains(t, s.Get("/account/open").Body, "It is done.")
}

func TestFormErrorsAreLinkedToTheirFields(t *testing.T) {
	p := start(t).Get("/account/wrong").Shows(http.StatusUnprocessableEntity, "There is a problem", "Enter a name.")
	require.Contains(t, p.Body, "<title>Error: Form")
	require.Contains(t, p.Body, `<a href="#name">Enter a name.</a>`)
	require.Contains(t, p.Body, `<input aria-invalid="true" aria-describedby="hint name-error">`)
}

func TestFailuresAreLoggedAndNotShown(t *testing.T) {
	s := start(t)
	for path, status := range map[string]int{
		"/account/outage": http.StatusServiceUnavailable, "/account/failure": http.StatusInternalServerError, "/account/panic": http.StatusInternalServerError,
		"/account/away": http.StatusInternalServerError,
	} {
		p := s.Get(path).Shows(status)
		require.NotContains(t, p.Body, "db.internal", path)
		require.Empty(t, p.Header.Get("Location"), path)
	}
	require.Contains(t, s.Log(), "panic: db.internal")
	require.Contains(t, s.Log(), "redirect target is not one of our pages")
}

func TestHeadHasNoBody(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/account/open", "/account/file", "/account/no-such-page"} {
		head := s.Send(http.MethodHead, path, nil, nil)
		require.Empty(t, head.Body, path)
		require.Equal(t, s.Get(path).Status, head.Status, path)
	}
}

// A file that ends early must not be taken for a complete one.
func TestFiles(t *testing.T) {
	s := start(t)
	p := s.Get("/account/file")
	require.Equal(t, "a,b\r\n", p.Body)
	require.Equal(t, `attachment; filename="usage.csv"`, p.Header.Get("Content-Disposition"))
	p = s.Get("/account/no-file").Shows(http.StatusServiceUnavailable)
	require.Empty(t, p.Header.Get("Content-Disposition"))
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { s.Get("/account/part") })
}

func TestTemplateNamesAreUnique(t *testing.T) {
	page := site.Feature{Templates: fstest.MapFS{"templates/keys.html": {Data: []byte(`{{define "content"}}{{end}}`)}}}
	_, err := site.New(site.Config{PublicURL: sitetest.PublicURL}, page, page)
	require.ErrorContains(t, err, `"keys"`)
}
