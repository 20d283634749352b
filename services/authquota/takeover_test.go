package authquota_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"
)

// An intruder requests a new address. Everything the owner does to sign the intruder out also cancels that request.
func TestSecurityActionsCancelAddressChange(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		n := 0
		asks := func() string {
			t.Helper()
			n++
			clock.move(time.Minute)
			b.post("/account/security/confirm", "password", b.password).leads("/account/security")
			b.post("/account/security/email", "email", "eve@example.org").leads("/account/security")
			return b.svc.mail("eve@example.org", "new-address", n).links()[0]
		}
		for _, act := range []struct {
			name string
			do   func()
		}{
			{"another password", func() {
				b.post("/account/security/password", "current", b.password, "password", otherPassword).leads("/account/security")
				b.password = otherPassword
			}},
			{"a forgotten password", func() {
				link := b.other().askFor("/account/forgot", b.email, "reset-password", 1)
				b.post("/account/reset", "token", b.get(link).token(), "password", goodPassword).leads("/account/sign-in")
				b.password = goodPassword
				b.signInAgain(clock)
			}},
			{"another authenticator", func() {
				b.seed = b.get("/account/security/authenticator").seed()
				code, err := totp.GenerateCode(b.seed, clock.Now())
				require.NoError(t, err)
				b.post("/account/security/authenticator", "code", code).leads("/account/security")
			}},
			{"the end of all sessions", func() {
				b.post("/account/security/sessions/end-all").leads("/account/sign-in")
				b.signInAgain(clock)
			}},
			{"the button", func() {
				b.get("/account/security").shows(http.StatusOK, "Changes to eve@example.org when you open the link")
				b.post("/account/security/email/keep").leads("/account/security")
			}},
			{"the link in the mail to the owner", func() {
				told := b.svc.mail(b.email, "address-change-asked", n)
				require.Contains(t, told.plain, "e…@example.org")
				keep := told.links()[0]
				owner := b.other()
				owner.post("/account/old-address", "token", owner.get(keep).shows(http.StatusOK, "Keep your address?").token()).leads("/account/security")
				owner.get(keep).shows(http.StatusGone)
				owner.post("/account/old-address", "token", "made-up").shows(http.StatusGone)
			}},
		} {
			link := asks()
			token := b.get(link).shows(http.StatusOK, "eve@example.org").token()
			act.do()
			b.get(link).shows(http.StatusGone)
			b.post("/account/new-address", "token", token).shows(http.StatusGone)
			require.NotContains(t, b.get("/account/security").shows(http.StatusOK, "ada@example.org").text(), "eve@example.org", act.name)
		}
	})
}

// Links sent to an old address stop working, except those that cancel something.
func TestLinksEndWithTheAddressTheyWentTo(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		half := b.other()
		half.enterPassword()
		half.post("/account/lost-authenticator").leads("/account/lost-authenticator/sent")
		sent := b.svc.mail(b.email, "authenticator-reset-asked", 1).links()
		reset := half.askFor("/account/forgot", b.email, "reset-password", 1)
		b.post("/account/security/email", "email", "lovelace@example.org").leads("/account/security")
		link := b.svc.mail("lovelace@example.org", "new-address", 1).links()[0]
		b.post("/account/new-address", "token", b.get(link).token()).leads("/account/security")
		b.get(b.svc.mail("ada@example.org", "address-change-asked", 1).links()[0]).shows(http.StatusGone)
		b.get(sent[0]).shows(http.StatusGone)
		b.get(reset).shows(http.StatusGone)
		b.get(sent[1]).shows(http.StatusOK, "Keep the authenticator?")
	})
}

// Proving a factor or changing the password cancels the removal of an authenticator reported lost.
func TestTheOwnerKeepsTheAuthenticator(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		k := b.addPasskey("Key ring")
		n := 0
		for name, act := range map[string]func(){
			"a code": func() { b.post("/account/security/confirm", "code", b.code()).leads("/account/security") },
			"a passkey": func() {
				b.post("/account/security/confirm", "answer", k.prove(b.get("/account/security/confirm"))).leads("/account/security")
			},
			"a button": func() { b.post("/account/security/authenticator/keep").leads("/account/security") },
			"another password": func() {
				b.post("/account/security/password", "current", b.password, "password", b.password+"!").leads("/account/security")
				b.password += "!"
			},
			"a forgotten one": func() {
				link := b.other().askFor("/account/forgot", b.email, "reset-password", 1)
				b.password += "?"
				b.post("/account/reset", "token", b.get(link).token(), "password", b.password).leads("/account/sign-in")
				var at *int64
				require.NoError(t, s.open(t).Raw("SELECT reset_at FROM people").Scan(&at).Error)
				require.Nil(t, at)
				b.signInAgain(clock)
			},
		} {
			n++
			clock.move(time.Minute)
			half := b.other()
			half.enterPassword().leads("/account/sign-in/code")
			half.post("/account/lost-authenticator").leads("/account/lost-authenticator/sent")
			lost := b.svc.mail(b.email, "authenticator-reset-asked", n).links()[0]
			half.post("/account/lost-authenticator/confirm", "token", half.get(lost).token()).leads("/account/sign-in")
			b.post("/account/security/confirm", "password", b.password).leads("/account/security") // which the attacker also has
			b.get("/account/keys").shows(http.StatusOK, "Your authenticator will be removed on")
			act()
			require.NotContains(t, b.get("/account/keys").shows(http.StatusOK).text(), "will be removed", name)
		}
		require.Contains(t, b.actions(), "factor.reset_cancel")
	})
}

// Resetting the password also ends the session of the browser, even of another account.
func TestANewPasswordEndsTheBrowsersSession(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		stranger := b.svc.browser()
		stranger.signUp("grace@example.org")
		link := stranger.askFor("/account/forgot", b.email, "reset-password", 1)
		kept := stranger.other()
		kept.cookies["__Host-session"] = stranger.cookies["__Host-session"]
		kept.get("/account").shows(http.StatusOK)
		stranger.post("/account/reset", "token", stranger.get(link).token(), "password", otherPassword).leads("/account/sign-in")
		kept.get("/account").leads("/account/sign-in")
	})
}
