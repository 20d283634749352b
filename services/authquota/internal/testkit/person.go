package testkit

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"
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
	code, err := totp.GenerateCode(seed, at)
	require.NoError(t, err)
	return code
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

// Other returns the person with another browser, without cookies.
func (p *Person) Other() *Person {
	other := *p
	other.Browser = p.Browser.Other()
	return &other
}

var (
	seeds  = regexp.MustCompile(`<code class="secret">([^<]+)</code>`)
	tokens = regexp.MustCompile(`name="token" value="([^"]+)"`)
)

// Seed returns the seed on a page with a new authenticator.
func Seed(p Page) string { return strings.ReplaceAll(p.Find(seeds), " ", "") }

// Token returns the secret of the link that a page was opened with, from its form.
func Token(p Page) string { return p.Find(tokens) }
