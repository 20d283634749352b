package accountpages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota"
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
	b.Get(strings.Replace(link, "token=", "token=3D", 1)).Shows(http.StatusOK, "Choose a password") // from the source of the mail
	b.Get(link[:len(link)-9]+"=%0A"+link[len(link)-9:]).Shows(http.StatusOK, "Choose a password")
	form := b.Get(link).Shows(http.StatusOK, "Choose a password")
	require.NotContains(t, form.Body, "maxlength", "a browser would cut a password without a word")
	for given, message := range map[string]string{
		"short": "Use at least 12 characters", strings.Repeat("walnut-harbour ", 9): "Use at most 128 characters.",
		"grace@example.org": "Do not use your email address", "passwordpassword": "too easy to guess",
	} {
		b.Post("/account/confirm", "token", testkit.Token(form), "password", given).Shows(http.StatusUnprocessableEntity, message)
	}
	require.Empty(t, b.Cookies)
	b.Post("/account/confirm", "token", testkit.Token(form), "password", testkit.Password).Leads("/account/authenticator")
	require.NotEmpty(t, b.Cookies["__Host-session"])

	// A person who cannot set up the authenticator can sign out.
	require.Contains(t, b.Get("/account/authenticator").Shows(http.StatusOK, "Sign out").Body, `action="/account/sign-out"`)
	b.Get("/account/keys").Leads("/account/authenticator")
	b.Post("/account/authenticator", "code", "000000").Shows(http.StatusUnprocessableEntity, "Enter the one that the app shows now for the QR code on this page")
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
	to := signIn("/account/sign-in", page).Leads("/account/sign-in/code?next=%2Faccount%2Frecovery-codes%3Fx%3D1").Header.Get("Location")
	require.Contains(t, b.Get(to).Body, `value="`+page+`"`)
	b.Post("/account/sign-in/code", "code", b.Code(), "next", page).Leads(page)

	for _, evil := range []string{"https://evil.example", "//evil.example", "/docs", "/account/../docs", "/\\evil.example", "javascript:alert(1)", "/account\r\nX: y"} {
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
		b.Post("/account/sign-out"), b.EnterPassword(), b.Post("/account/sign-in/code", "code", b.Codes[0]), b.Post("/account/sign-out"),
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
	s, b := person(t, func(c *authquota.Config) { c.PublicURL = "http://127.0.0.1" })
	before := s.Dump(t)["people"]
	for _, c := range []struct {
		path    string
		fields  []string
		message string
	}{
		{"email", []string{"email", "ada"}, "Enter an email address"},
		{"email", []string{"email", "ADA@example.org"}, "This is already your address."},
		{"password", []string{"current", b.Password, "password", "short"}, "Use at least 12 characters"},
		{"password", []string{"current", "another one", "password", b.Password + "!"}, "This is not the password of the account."},
		{"authenticator", []string{"code", "000000"}, "The code is wrong."},
		{"confirm", []string{"password", "another one"}, "This is not the password of the account."},
		{"confirm", []string{"code", people.GenerateRecoveryCodes()[0]}, "Recovery codes work only at sign-in."},
		{"close", []string{"email", "bob@example.org"}, "This is not the email address of the account."},
	} {
		p := b.Send(http.MethodPost, "/account/security/"+c.path, form(c.fields...), http.Header{"Origin": {"http://127.0.0.1"}})
		p.Shows(http.StatusUnprocessableEntity, "There is a problem", c.message)
	}
	require.Equal(t, before, s.Dump(t)["people"])
	b.Post("/account/security/sessions/end", "id", "x").Shows(http.StatusNotFound)
	b.Post("/account/security/passkeys/remove", "id", "x").Shows(http.StatusNotFound)
	b.Get("/account/security/passkeys").Leads("/account/security") // impossible without a host name
}

func form(fields ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Add(fields[i], fields[i+1])
	}
	return values
}

func TestRepeatedFailuresAreOneEvent(t *testing.T) {
	s, b := person(t)
	for range 2 {
		b.Post("/account/security/confirm", "password", "another one").Shows(http.StatusUnprocessableEntity)
	}
	s.Suspend(b.Account, "a secret of operators")
	p := b.Get("/account/security").Shows(http.StatusOK, "Failed to confirm", "2 times in 30 days", "Account suspended", "the operator")
	require.NotContains(t, p.Text(), "a secret of operators")
	require.Less(t, strings.Index(p.Text(), "Account suspended"), strings.Index(p.Text(), "Account created"), "the last first")
}
