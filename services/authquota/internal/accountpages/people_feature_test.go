package accountpages_test

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func TestMain(m *testing.M) { sitekit.Main(m, "templates") }

const otherPassword = "marmalade-on-a-quiet-glacier"

// feature is a site whose mails are collected.
type feature struct {
	*sitekit.Site

	t    *testing.T
	sent []mail.Posted // so far
}

// onBoth runs a test of concurrent requests on each database.
func onBoth(t *testing.T, test func(t *testing.T, f *feature)) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		test(t, &feature{Site: sitekit.On(t, db), t: t})
	})
}

// onSite runs a test on SQLite. It starts at 10:00 on 20 November 2026. What depends on the
// database is tested beside each store.
func onSite(t *testing.T, test func(t *testing.T, f *feature)) {
	t.Helper()
	t.Parallel()
	test(t, &feature{Site: sitekit.New(t), t: t})
}

// member returns a person who has been signed in for a minute.
func (f *feature) member(email string) *testkit.Person {
	f.t.Helper()
	p := f.SignUp(email)
	f.Advance(time.Minute)
	return p
}

// signInAgain takes both steps of signing in.
func (f *feature) signInAgain(p *testkit.Person) {
	f.t.Helper()
	f.Advance(time.Minute) // a code signs in once
	p.SignIn()
}

// letter is a mail.
type letter struct{ mail.Letter }

// mail returns the n-th mail of a template to an address, counted from 1.
func (f *feature) mail(to, template string, n int) letter {
	f.t.Helper()
	f.sent = append(f.sent, f.TakePosted(f.t)...)
	for _, m := range f.sent {
		if m.Letter.To == to && m.Template == template {
			if n--; n == 0 {
				return letter{m.Letter}
			}
		}
	}
	require.FailNow(f.t, "no such mail", "%s to %s", template, to)
	return letter{}
}

var links = regexp.MustCompile(`https://api\.example(/account/[^\s")]+)`)

// links returns the paths in a mail.
func (l letter) links() (paths []string) {
	for _, found := range links.FindAllStringSubmatch(l.Text, -1) {
		paths = append(paths, found[1])
	}
	return paths
}

// askFor submits an address to a page and returns the link in the n-th mail of a template.
func (f *feature) askFor(p *testkit.Person, path, email, template string, n int) string {
	f.t.Helper()
	require.Equal(f.t, http.StatusSeeOther, p.Post(path, "email", email).Status)
	return f.mail(email, template, n).links()[0]
}

// confirm follows the link of a mail and chooses the password.
func (f *feature) confirm(p *testkit.Person, link string) {
	f.t.Helper()
	form := p.Get(link).Shows(http.StatusOK, "Choose a password")
	p.Post("/account/confirm", "token", testkit.Token(form), "password", testkit.Password).Leads("/account/authenticator")
}
