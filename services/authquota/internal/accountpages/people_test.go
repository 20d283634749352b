package accountpages_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func TestPasswordOfANewAccount(t *testing.T) {
	f := &feature{Site: sitekit.New(t), t: t}
	b := f.Visitor()
	for _, email := range []string{"", "ada", "ada@example", "ada@example.org\nBcc: x"} {
		b.Post("/account/sign-up", "email", email).Shows(http.StatusUnprocessableEntity, "Enter an email address")
	}
	link := f.askFor(b, "/account/sign-up", "grace@example.org", "confirm-address", 1)
	b.Get("/account/sign-up/sent").Shows(http.StatusOK, "This installation sends no email")
	b.Get("/account/confirm?token=unknown").Shows(http.StatusGone, "This link has expired")
	b.Post("/account/confirm", "token", "unknown", "password", testkit.Password).Shows(http.StatusGone)
	// from the source of the mail
	b.Get(strings.Replace(link, "token=", "token=3D", 1)).Shows(http.StatusOK, "Choose a password")
	b.Get(link[:len(link)-9]+"=%0A"+link[len(link)-9:]).Shows(http.StatusOK, "Choose a password")
	form := b.Get(link).Shows(http.StatusOK, "Choose a password")
	require.NotContains(t, form.Body, "maxlength", "a browser would cut a password without a word")
	for given, message := range map[string]string{
		"short": "Use at least 12 characters", strings.Repeat("walnut-harbour ", 9): "Use at most 128 characters.",
		"grace@example.org": "Do not use your email address", "passwordpassword": "too easy to guess",
	} {
		b.Post("/account/confirm", "token", testkit.Token(form), "password", given).
			Shows(http.StatusUnprocessableEntity, message)
	}
	require.Empty(t, b.Cookies)
	b.Post("/account/confirm", "token", testkit.Token(form), "password", testkit.Password).Leads("/account/authenticator")
	require.NotEmpty(t, b.Cookies["__Host-session"])

	// A person who cannot set up the authenticator can sign out.
	require.Contains(t, b.Get("/account/authenticator").
		Shows(http.StatusOK, "Sign out").Body, `action="/account/sign-out"`)
	b.Get("/account/keys").Leads("/account/authenticator")
	b.Post("/account/authenticator", "code", "000000").
		Shows(http.StatusUnprocessableEntity, "Enter the one that the app shows now for the QR code on this page")
	b.Post("/account/sign-out").Leads("/account/sign-in")
	require.Empty(t, b.Cookies["__Host-session"])
}

func TestSignInContinuesToRequestedPage(t *testing.T) {
	s, b := person(t)
	const page = "/account/recovery-codes?x=1"
	signIn := func(path, next string) testkit.Page {
		s.Advance(time.Minute) // a code signs in once
		delete(b.Cookies, "__Host-session")
		return b.Post(path, "email", b.Email, "password", b.Password, "next", next)
	}
	to := signIn("/account/sign-in", page).
		Leads("/account/sign-in/code?next=%2Faccount%2Frecovery-codes%3Fx%3D1").Header.Get("Location")
	require.Contains(t, b.Get(to).Body, `value="`+page+`"`)
	b.Post("/account/sign-in/code", "code", b.Code(), "next", page).Leads(page)

	for _, evil := range []string{"https://evil.example", "//evil.example", "/docs", "/account/../docs",
		"/\\evil.example", "javascript:alert(1)", "/account\r\nX: y"} {
		query := "?next=" + url.QueryEscape(evil)
		signIn("/account/sign-in"+query, evil).Leads("/account/sign-in/code")
		b.Post("/account/sign-in/code"+query, "code", b.Code(), "next", evil).Leads("/account")
		delete(b.Cookies, "__Host-session")
		require.NotContains(t, b.Get("/account/sign-in"+query).Body, `name="next"`, evil)
	}
}

func TestCookiesAreForThisHostAlone(t *testing.T) {
	_, b := person(t)
	for _, p := range []testkit.Page{
		b.Post("/account/sign-out"), b.EnterPassword(), b.Post("/account/sign-in/code", "code", b.Codes[0]),
		b.Post("/account/sign-out"),
	} {
		require.NotEmpty(t, p.Header.Values("Set-Cookie"))
		for _, c := range p.Header.Values("Set-Cookie") {
			require.True(t, strings.HasPrefix(c, "__Host-"), c)
			for _, flag := range []string{"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} {
				require.Contains(t, c, "; "+flag)
			}
			require.NotContains(t, c, "Domain")
		}
	}
}

func TestSecurityFormsExplainWrongInput(t *testing.T) {
	s, b := person(t)
	before := s.Dump(t)["people"]
	for _, c := range []struct {
		path    string
		fields  []string
		message string
	}{
		{"email", []string{"email", "ada"}, "Enter an email address"},
		{"email", []string{"email", "ADA@example.org"}, "This is already your address."},
		{"password", []string{"current", b.Password, "password", "short"}, "Use at least 12 characters"},
		{"email", nil, "Enter an email address"},
		{"password", []string{"current", b.Password, "password", b.Email}, "email address as the password"},
		{"password", []string{"password", b.Password + "!"}, "This is not the password of the account."},
		{"password", []string{"current", "another one", "password", b.Password + "!"},
			"This is not the password of the account."},
		{"authenticator", []string{"code", "000000"}, "The code is wrong."},
		{"confirm", []string{"password", "another one"}, "This is not the password of the account."},
		{"confirm", []string{"code", b.Codes[0]}, "Recovery codes work only at sign-in."},
		{"close", nil, "This is not the email address of the account."},
		{"close", []string{"email", "bob@example.org"}, "This is not the email address of the account."},
	} {
		b.Post("/account/security/"+c.path, c.fields...).
			Shows(http.StatusUnprocessableEntity, "There is a problem", c.message)
	}
	require.Equal(t, before, s.Dump(t)["people"])
}

var codes = regexp.MustCompile(`<li><code>([^<]+)</code></li>`)

func TestARecoveryCodeSignsInOnce(t *testing.T) {
	f := onSite(t)
	b := f.SignUp("ada@example.org")
	o := b.Halfway()
	o.Post("/account/sign-in/code", "code", "  "+o.Codes[3]+" ").Leads("/account")
	require.Contains(t, f.mail(b.Email, "recovery-code-used", 1).Text, "9")
	o.Get("/account/recovery-codes").Shows(http.StatusOK, "9 of ten codes left")
	fresh := o.Post("/account/recovery-codes").Shows(http.StatusOK, "Save them now").Find(codes)
	f.mail(b.Email, "factor-changed", 1)
	again := b.Halfway()
	for _, old := range o.Codes[3:5] {
		again.Post("/account/sign-in/code", "code", old).
			Shows(http.StatusUnprocessableEntity, "wrong or was already used")
	}
	again.Post("/account/sign-in/code", "code", fresh).Leads("/account")
}

func TestAForgottenPassword(t *testing.T) {
	f, b := member(t)
	stranger := b.Other()
	stranger.Get("/account/forgot").Shows(http.StatusOK, "Forgotten password")
	late := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 1)
	stranger.Get("/account/forgot/sent").Shows(http.StatusOK, "Check your email")
	stranger.Get(late).Shows(http.StatusOK, "Choose a new password", b.Email)
	f.Advance(time.Hour)
	stranger.Get(late).Shows(http.StatusGone)

	b.SignIn()
	first := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 2)
	second := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 3)
	token := testkit.Token(stranger.Get(second))
	stranger.Post("/account/reset", "token", token, "password", otherPassword).Leads("/account/sign-in")
	stranger.Get("/account/sign-in").Shows(http.StatusOK, "Your password was changed")
	for _, link := range []string{first, second} {
		stranger.Get(link).Shows(http.StatusGone)
	}
	stranger.Post("/account/reset", "token", token, "password", testkit.Password).Shows(http.StatusGone)
	f.mail(b.Email, "password-changed", 1)
	b.Get("/account").Leads("/account/sign-in") // every session has ended
	stranger.EnterPassword().Shows(http.StatusUnprocessableEntity)
	stranger.Password = otherPassword
	f.signInAgain(stranger) // the second factor is still required
}

func TestALostAuthenticator(t *testing.T) {
	f, b := member(t)
	o := b.Other()
	begin := func(n int) (keep string) {
		t.Helper()
		o.EnterPassword().Leads("/account/sign-in/code")
		o.Get("/account/lost-authenticator").Shows(http.StatusOK, "three days")
		o.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
		o.Get("/account/lost-authenticator/sent").Shows(http.StatusOK, "Check your email")
		links := f.links(b.Email, "authenticator-reset-asked", n)
		form := o.Get(links[0]).Shows(http.StatusOK, "Is the authenticator lost?")
		o.Post("/account/lost-authenticator/confirm", "token", testkit.Token(form)).Leads("/account/sign-in")
		o.Get(links[0]).Shows(http.StatusGone)
		b.Get("/account").Shows(http.StatusOK, "Your authenticator will be removed on")
		return links[1]
	}
	keep := begin(1)
	form := o.Get(keep).Shows(http.StatusOK, "Keep the authenticator?")
	o.Post("/account/lost-authenticator/cancel", "token", testkit.Token(form)).Leads("/account/sign-in")
	o.Get(keep).Shows(http.StatusGone)
	f.Advance(time.Minute)
	begin(2)
	b.Post("/account/security/authenticator/keep").Leads("/account/security")
	require.NotContains(t, b.Get("/account").Shows(http.StatusOK).Text(), "will be removed")

	f.Advance(time.Minute)
	begin(3)
	f.Advance(people.ResetWait)
	o.EnterPassword()
	f.mail(b.Email, "authenticator-reset", 1)
	o.Get("/account").Leads("/account/authenticator")
	o.Seed = testkit.Seed(o.Get("/account/authenticator"))
	require.NotEqual(t, b.Seed, o.Seed)
	o.Post("/account/authenticator", "code", o.Code()).Shows(http.StatusOK, "Your recovery codes")
	f.Advance(time.Minute)
	o.EnterPassword()
	o.Post("/account/sign-in/code", "code", b.Codes[0]).Shows(http.StatusUnprocessableEntity)
	o.Post("/account/sign-in/code", "code", o.Code()).Leads("/account")
}
