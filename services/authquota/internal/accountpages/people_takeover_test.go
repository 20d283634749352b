package accountpages_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/testkit"
)

// An intruder requests a new address. Everything the owner does to sign the intruder out also
// cancels that request.
func TestSecurityActionsCancelAddressChange(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		n := 0
		asks := func() string {
			t.Helper()
			n++
			f.Advance(time.Minute)
			b.Post("/account/security/confirm", "password", b.Password).Leads("/account/security")
			b.Post("/account/security/email", "email", "eve@example.org").Leads("/account/security")
			return f.mail("eve@example.org", "new-address", n).links()[0]
		}
		for _, act := range []struct {
			name string
			do   func()
		}{
			{"another password", func() {
				b.Post("/account/security/password", "current", b.Password, "password", otherPassword).Leads("/account/security")
				b.Password = otherPassword
			}},
			{"a forgotten password", func() {
				link := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)
				b.Post("/account/reset", "token", testkit.Token(b.Get(link)), "password", testkit.Password).Leads("/account/sign-in")
				b.Password = testkit.Password
				f.signInAgain(b)
			}},
			{"another authenticator", func() {
				b.Seed = testkit.Seed(b.Get("/account/security/authenticator"))
				code, err := totp.GenerateCode(b.Seed, f.Now())
				require.NoError(t, err)
				b.Post("/account/security/authenticator", "code", code).Leads("/account/security")
			}},
			{"the end of all sessions", func() {
				b.Post("/account/security/sessions/end-all").Leads("/account/sign-in")
				f.signInAgain(b)
			}},
			{"the button", func() {
				b.Get("/account/security").Shows(http.StatusOK, "Changes to eve@example.org when you open the link")
				b.Post("/account/security/email/keep").Leads("/account/security")
			}},
			{"the link in the mail to the owner", func() {
				told := f.mail(b.Email, "address-change-asked", n)
				require.Contains(t, told.Text, "e…@example.org")
				keep := told.links()[0]
				owner := b.Other()
				owner.Post("/account/old-address", "token", testkit.Token(owner.Get(keep).Shows(http.StatusOK, "Keep your address?"))).Leads("/account/security")
				owner.Get(keep).Shows(http.StatusGone)
				owner.Post("/account/old-address", "token", "made-up").Shows(http.StatusGone)
			}},
		} {
			link := asks()
			token := testkit.Token(b.Get(link).Shows(http.StatusOK, "eve@example.org"))
			act.do()
			b.Get(link).Shows(http.StatusGone)
			b.Post("/account/new-address", "token", token).Shows(http.StatusGone)
			require.NotContains(t, b.Get("/account/security").Shows(http.StatusOK, "ada@example.org").Text(), "eve@example.org", act.name)
		}
	})
}

// Links sent to an old address stop working, except those that cancel something.
func TestLinksEndWithTheAddressTheyWentTo(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		half := b.Other()
		half.EnterPassword()
		half.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
		sent := f.mail(b.Email, "authenticator-reset-asked", 1).links()
		reset := f.askFor(half, "/account/forgot", b.Email, "reset-password", 1)
		b.Post("/account/security/email", "email", "lovelace@example.org").Leads("/account/security")
		link := f.mail("lovelace@example.org", "new-address", 1).links()[0]
		b.Post("/account/new-address", "token", testkit.Token(b.Get(link))).Leads("/account/security")
		b.Get(f.mail("ada@example.org", "address-change-asked", 1).links()[0]).Shows(http.StatusGone)
		b.Get(sent[0]).Shows(http.StatusGone)
		b.Get(reset).Shows(http.StatusGone)
		b.Get(sent[1]).Shows(http.StatusOK, "Keep the authenticator?")
	})
}

// Proving a factor or changing the password cancels the removal of an authenticator reported lost.
func TestTheOwnerKeepsTheAuthenticator(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		k := b.AddPasskey("Key ring")
		n := 0
		for name, act := range map[string]func(){
			"a code": func() { b.Post("/account/security/confirm", "code", b.Code()).Leads("/account/security") },
			"a passkey": func() {
				b.Post("/account/security/confirm", "answer", k.Prove(b.Get("/account/security/confirm"))).Leads("/account/security")
			},
			"a button": func() { b.Post("/account/security/authenticator/keep").Leads("/account/security") },
			"another password": func() {
				b.Post("/account/security/password", "current", b.Password, "password", b.Password+"!").Leads("/account/security")
				b.Password += "!"
			},
			"a forgotten one": func() {
				link := f.askFor(b.Other(), "/account/forgot", b.Email, "reset-password", 1)
				b.Password += "?"
				b.Post("/account/reset", "token", testkit.Token(b.Get(link)), "password", b.Password).Leads("/account/sign-in")
				person, err := f.People.Person(t.Context(), b.Account)
				require.NoError(t, err)
				require.Nil(t, person.ResetAt)
				f.signInAgain(b)
			},
		} {
			n++
			f.Advance(time.Minute)
			half := b.Other()
			half.EnterPassword().Leads("/account/sign-in/code")
			half.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
			lost := f.mail(b.Email, "authenticator-reset-asked", n).links()[0]
			half.Post("/account/lost-authenticator/confirm", "token", testkit.Token(half.Get(lost))).Leads("/account/sign-in")
			b.Post("/account/security/confirm", "password", b.Password).Leads("/account/security") // which the attacker also has
			b.Get("/account").Shows(http.StatusOK, "Your authenticator will be removed on")
			act()
			require.NotContains(t, b.Get("/account").Shows(http.StatusOK).Text(), "will be removed", name)
		}
		require.Contains(t, f.Actions(t, b.Account), "factor.reset_cancel")
	})
}

// Resetting the password also ends the session of the browser, even of another account.
func TestANewPasswordEndsTheBrowsersSession(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		stranger := f.SignUp("grace@example.org")
		link := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 1)
		signedIn := stranger.Other()
		signedIn.Cookies["__Host-session"] = stranger.Cookies["__Host-session"]
		signedIn.Get("/account").Shows(http.StatusOK)
		stranger.Post("/account/reset", "token", testkit.Token(stranger.Get(link)), "password", otherPassword).Leads("/account/sign-in")
		signedIn.Get("/account").Leads("/account/sign-in")
	})
}
