package people_test

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/dbtx/dbtxtest"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/people/peopletest"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
	"opportunity.internal/services/authquota/internal/usage"
)

func TestMain(m *testing.M) { sitetest.Main(m, "../pages/templates/none") }

const otherPassword = "marmalade-on-a-quiet-glacier"

// feature is the pages of people on their store.
type feature struct {
	dbtxtest.DB

	t        *testing.T
	people   *people.Store
	keys     *keys.Store
	accounts *accountview.Store
	pages    http.Handler
	log      *bytes.Buffer
	sent     []mail.Posted // so far
}

// onBoth runs a test on each database. It starts at 10:00 on 20 November 2026.
func onBoth(t *testing.T, test func(t *testing.T, f *feature)) {
	dbtxtest.OnBoth(t, func(t *testing.T, db dbtxtest.DB) { test(t, newFeature(t, db, sitetest.PublicURL)) })
}

func newFeature(t *testing.T, db dbtxtest.DB, publicURL string) *feature {
	f := &feature{DB: db, t: t, people: people.NewStore(db.DB), keys: keys.NewStore(db.DB), log: new(bytes.Buffer)}
	f.accounts = accountview.NewStore(db.DB, f.keys)
	log := sitetest.NewLogger(f.log)
	tiers, err := account.ParseTiers("")
	require.NoError(t, err)
	p := &pages.Pages{
		PublicURL: publicURL, RelyingParty: passkey.At(publicURL, pages.Issuer), TermsVersion: "1", Log: log,
		Apply:    func(context.Context, string) error { return nil },
		Sessions: f.people, Attempts: f.people, Links: f.people, SignUps: f.people, Passwords: f.people, Resets: f.people,
		Codes: f.people, Authenticators: f.people, Replacements: f.people, Losses: f.people, Passkeys: f.people, Challenges: f.people, Proofs: f.people,
		PasswordChanges: f.people, AddressChanges: f.people, AddressLinks: f.people, Closing: f.people, Events: f.accounts,
		Renewals: f.people, UnusedCodes: f.people, Overview: f.keys,
		Allowances: site.Allowances{Tiers: tiers, Counters: noCounters{}, Ledger: usage.NewStore(db.DB)},
	}
	s, err := site.New(site.Config{
		Errors: problem.Writer{BaseURL: publicURL, Log: log}, PublicURL: publicURL, Now: db.Now, Sessions: f.people,
		Available: sitetest.Always,
	}, p.Feature())
	require.NoError(t, err)
	f.pages = s.Handler()
	return f
}

// noCounters are the live counters of an account without requests.
type noCounters struct{}

func (noCounters) Used(context.Context, string, time.Time) (int, error) { return 0, nil }

// visitor returns a person without an account.
func (f *feature) visitor() *peopletest.Person {
	return peopletest.New(f.t, sitetest.Visit(f.t, f.pages), f.Now)
}

// signUp returns a person who is signed in.
func (f *feature) signUp(email string) *peopletest.Person {
	f.t.Helper()
	p := f.visitor()
	p.SignUp(f.DB, email)
	return p
}

// member returns a person who has been signed in for a minute.
func (f *feature) member(email string) *peopletest.Person {
	f.t.Helper()
	p := f.signUp(email)
	f.Advance(time.Minute)
	return p
}

// signInAgain takes both steps of signing in.
func (f *feature) signInAgain(p *peopletest.Person) {
	f.t.Helper()
	f.Advance(time.Minute) // a code signs in once
	p.SignIn()
}

const operator = "bob"

func (f *feature) suspend(id, reason string) {
	f.t.Helper()
	change, err := account.Suspend(reason)
	require.NoError(f.t, err)
	_, err = f.accounts.ChangeAccount(f.t.Context(), operator, id, change)
	require.NoError(f.t, err)
}

func (f *feature) resume(id string) {
	f.t.Helper()
	change, err := account.Resume("resolved")
	require.NoError(f.t, err)
	_, err = f.accounts.ChangeAccount(f.t.Context(), operator, id, change)
	require.NoError(f.t, err)
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
func (f *feature) askFor(p *peopletest.Person, path, email, template string, n int) string {
	f.t.Helper()
	require.Equal(f.t, http.StatusSeeOther, p.Post(path, "email", email).Status)
	return f.mail(email, template, n).links()[0]
}

// confirm follows the link of a mail and chooses the password.
func (f *feature) confirm(p *peopletest.Person, link string) {
	f.t.Helper()
	form := p.Get(link).Shows(http.StatusOK, "Choose a password")
	p.Post("/account/confirm", "token", peopletest.Token(form), "password", dbtxtest.Password).Leads("/account/authenticator")
}
