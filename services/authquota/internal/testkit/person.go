package testkit

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"
	"opportunity.internal/pkg/storetest"
)

// Person is a person with a browser.
type Person struct {
	*Browser

	Email    string
	Account  string
	Password string
	Seed     string   // of the authenticator
	Codes    []string // recovery codes

	t   testing.TB
	now func() time.Time
}

// NewPerson returns a person without an account. now is the time on the person's authenticator.
func NewPerson(t testing.TB, browser *Browser, now func() time.Time) *Person {
	return &Person{Browser: browser, t: t, now: now}
}

// SignUp signs the person up in the stores, and the browser in.
func (p *Person) SignUp(db DB, email string) {
	p.t.Helper()
	m := db.SignUp(p.t, email)
	p.Email, p.Account, p.Password, p.Seed, p.Codes = email, m.Account, Password, m.Seed, m.Codes
	p.Cookies["__Host-session"], p.Cookies["__Host-device"] = m.Session, m.Device
}

// Code returns the current code of the authenticator.
func (p *Person) Code() string {
	p.t.Helper()
	return code(p.t, p.Seed, p.now())
}

func code(t testing.TB, seed string, at time.Time) string {
	t.Helper()
	return storetest.Must(totp.GenerateCode(seed, at))(t)
}

// WrongCode returns a code that is not valid within a minute of now.
func (p *Person) WrongCode() string {
	p.t.Helper()
	var valid []string
	for _, d := range []time.Duration{-time.Minute, -30 * time.Second, 0, 30 * time.Second, time.Minute} {
		valid = append(valid, code(p.t, p.Seed, p.now().Add(d)))
	}
	for _, candidate := range []string{"000000", "111111", "222222", "333333", "444444", "555555"} {
		if !strings.Contains(strings.Join(valid, " "), candidate) {
			return candidate
		}
	}
	panic("unreachable: five codes cannot be six others")
}

// EnterPassword takes the first step of signing in.
func (p *Person) EnterPassword() Page {
	p.t.Helper()
	return p.Post("/account/sign-in", "email", p.Email, "password", p.Password)
}

// SignIn takes both steps of signing in. A code signs in once, so the time must have moved since
// the last one.
func (p *Person) SignIn() {
	p.t.Helper()
	p.EnterPassword().Leads("/account/sign-in/code")
	p.Post("/account/sign-in/code", "code", p.Code()).Leads("/account")
}

// RequestKey requests a key, accepts a version of the terms of use, and returns the ID of the
// request.
func (p *Person) RequestKey(name, terms string) string {
	p.t.Helper()
	before := p.Get("/account/keys").Body
	p.Post("/account/keys/new", "name", name, "useCase", "a job board", "terms", "accepted", "termsVersion", terms).
		Leads("/account/keys")
	for _, id := range requestIDs.FindAllString(p.Get("/account/keys").Body, -1) {
		if !strings.Contains(before, id) {
			return id
		}
	}
	require.FailNow(p.t, "the request is not on the page of keys")
	return ""
}

// Other returns the person with another browser, without cookies.
func (p *Person) Other() *Person {
	other := *p
	other.Browser = p.Browser.Other()
	return &other
}

// Halfway returns the person with another browser, which has taken the first step of signing in.
func (p *Person) Halfway() *Person {
	p.t.Helper()
	other := p.Other()
	other.EnterPassword().Leads("/account/sign-in/code")
	return other
}

// Stolen returns the person with another browser, which has the session of this one.
func (p *Person) Stolen() *Person {
	other := p.Other()
	other.Cookies["__Host-session"] = p.Cookies["__Host-session"]
	return other
}

var (
	seeds  = regexp.MustCompile(`<code class="secret">([^<]+)</code>`)
	tokens = regexp.MustCompile(`name="token" value="([^"]+)"`)

	links      = regexp.MustCompile(`https://api\.example(/account/[^\s")]+)`)
	requestIDs = regexp.MustCompile(`req_[0-9a-f]{32}`)
	newKeys    = regexp.MustCompile(`(oda_(?:live|test)_[0-9A-Za-z]{43}_[0-9A-Za-z]{6})`)
)

// NewKey returns the key that a page shows once.
func NewKey(p Page) string {
	p.t.Helper()
	return p.Shows(http.StatusOK, "Copy your key now").Find(newKeys)
}

// Seed returns the seed on a page with a new authenticator.
func Seed(p Page) string { return strings.ReplaceAll(p.Find(seeds), " ", "") }

// Links returns the paths of the pages that the text of a mail links to.
func Links(text string) (paths []string) {
	for _, found := range links.FindAllStringSubmatch(text, -1) {
		paths = append(paths, found[1])
	}
	return paths
}

// Confirm follows the link of the mail to a new address and chooses the Password.
func (p *Person) Confirm(link string) {
	p.t.Helper()
	form := p.Get(link).Shows(http.StatusOK, "Choose a password")
	p.Post("/account/confirm", "token", Token(form), "password", Password).Leads("/account/authenticator")
}

// Token returns the secret of the link that a page was opened with, from its form.
func Token(p Page) string { return p.Find(tokens) }
