package authquota_test

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/testkit"
)

// browser is a person with a browser at a running service.
type browser struct {
	*testkit.Person

	svc *service
}

// browser returns a person without an account.
func (s *service) browser() *browser {
	return &browser{testkit.NewPerson(s.t, testkit.VisitURL(s.t, s.URL), s.now), s}
}

// signUp signs the person up in the stores, and the browser in.
func (b *browser) signUp(email string) {
	b.svc.t.Helper()
	b.SignUp(b.svc.open(b.svc.t), email)
}

// at returns the browser at another service.
func (b *browser) at(svc *service) *browser {
	moved := *b.Person
	moved.Browser = testkit.VisitURL(svc.t, svc.URL)
	moved.Cookies = b.Cookies
	return &browser{&moved, svc}
}

// other returns the person with another browser, without cookies.
func (b *browser) other() *browser { return &browser{b.Other(), b.svc} }

// mail waits for the n-th mail of a template to an address, counted from 1, and returns it.
func (s *service) mail(to, template string, n int) received {
	s.t.Helper()
	var found []received
	storetest.Eventually(s.t, "mail "+template, func() bool {
		found = nil
		for _, m := range s.allMails(s.t) {
			if m.to == to && strings.Contains(m.name, "Z-"+template+"-") {
				found = append(found, m)
			}
		}
		return len(found) >= n
	})
	return found[n-1]
}

var links = regexp.MustCompile(`https://api\.example(/account/[^\s")]+)`)

// links returns the paths in a mail.
func (m received) links() (paths []string) {
	for _, l := range links.FindAllStringSubmatch(m.plain, -1) {
		paths = append(paths, l[1])
	}
	return paths
}

// askFor submits an address to a page and returns the link sent by mail.
func (b *browser) askFor(path, email, template string, n int) string {
	b.svc.t.Helper()
	require.Equal(b.svc.t, http.StatusSeeOther, b.Post(path, "email", email).Status)
	return b.svc.mail(email, template, n).links()[0]
}

// confirm follows the link of a mail and chooses the password.
func (b *browser) confirm(link string) {
	b.svc.t.Helper()
	form := b.Get(link).Shows(http.StatusOK, "Choose a password")
	b.Post("/account/confirm", "token", testkit.Token(form), "password", testkit.Password).Leads("/account/authenticator")
}
