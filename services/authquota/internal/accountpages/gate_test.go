package accountpages_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// person returns a site and a person who is signed in.
func person(t *testing.T, adjust ...func(*authquota.Config)) (*sitekit.Site, *testkit.Person) {
	t.Helper()
	s := sitekit.New(t, adjust...)
	return s, s.SignUp("ada@example.org")
}

func TestEveryPageHasTheHeaders(t *testing.T) {
	_, b := person(t)
	for _, p := range []testkit.Page{
		b.Get("/account").Shows(http.StatusOK), b.Get("/account/no-such-page").Shows(http.StatusNotFound),
		b.Send(http.MethodPut, "/account", nil, nil).Shows(http.StatusMethodNotAllowed),
	} {
		require.Equal(t, "no-store", p.Header.Get("Cache-Control"))
		require.Contains(t, p.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "max-age=31536000", p.Header.Get("Strict-Transport-Security"))
	}
}

func TestStaticFilesAreServedUnderTheAccount(t *testing.T) {
	_, b := person(t)
	for _, script := range []string{"passkey.js", "copy.js"} {
		require.NotEmpty(t, script)
	}
	p := b.Get("/account")
	require.Regexp(t, `href="/account/static/style\.[0-9a-f]{8}\.css"`, p.Body)
	b.Get("/account/static/style.css").Shows(http.StatusNotFound)
}

func TestAccessLevels(t *testing.T) {
	const halfwayPage, signedIn, recent = "/account/lost-authenticator", "/account/keys", "/account/security/close"
	confirm := func(page string) string { return "/account/security/confirm?next=" + url.QueryEscape(page) }
	for name, c := range map[string]struct {
		set                       func(s *sitekit.Site, b *testkit.Person)
		halfway, signedIn, recent string // target of the redirect; empty if the page is shown
	}{
		"without a session": {func(_ *sitekit.Site, b *testkit.Person) { clear(b.Cookies) },
			"/account/sign-in", "/account/sign-in?next=%2Faccount%2Fkeys", "/account/sign-in?next=%2Faccount%2Fsecurity%2Fclose"},
		"with an ended session": {func(_ *sitekit.Site, b *testkit.Person) { b.Cookies["__Host-session"] = "of yesterday" },
			"/account/sign-in", "/account/sign-in?next=%2Faccount%2Fkeys", "/account/sign-in?next=%2Faccount%2Fsecurity%2Fclose"},
		"halfway": {func(_ *sitekit.Site, b *testkit.Person) {
			clear(b.Cookies)
			b.EnterPassword()
		}, "", "/account/sign-in/code?next=%2Faccount%2Fkeys", "/account/sign-in/code?next=%2Faccount%2Fsecurity%2Fclose"},
		"full": {func(*sitekit.Site, *testkit.Person) {}, "/account", "", ""},
		"full, ten minutes after the last proof": {func(s *sitekit.Site, _ *testkit.Person) { s.Advance(people.RecentProof) },
			"/account", "", confirm(recent)},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := person(t)
			c.set(s, b)
			b.Get("/account/sign-up").Shows(http.StatusOK)
			for path, target := range map[string]string{halfwayPage: c.halfway, signedIn: c.signedIn, recent: c.recent} {
				if p := b.Get(path); target == "" {
					p.Shows(http.StatusOK)
				} else {
					p.Leads(target)
				}
			}
		})
	}
}

// A form cannot be submitted again after a proof, so the person returns to the closest page that
// can be opened.
func TestFormContinuesAtItsPageAfterAProof(t *testing.T) {
	s, b := person(t)
	s.Advance(people.RecentProof)
	b.Post("/account/security/sessions/end").Leads("/account/security/confirm?next=%2Faccount%2Fsecurity")
	b.Get("/account/security/close?a=b&c=d").Leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Fclose%3Fa%3Db%26c%3Dd")
}
