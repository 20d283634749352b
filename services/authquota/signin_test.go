package authquota_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAPersonSignsUpAndIn(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.get("/account").leads("/account/sign-in")
		b.get("/account/sign-in").shows(http.StatusOK, "Sign in", "Create one")
		b.get("/account/sign-up").shows(http.StatusOK, "Create an account")
		b.post("/account/sign-up", "email", "nonsense").shows(http.StatusUnprocessableEntity, "Enter an e-mail address")
		b.post("/account/sign-up", "email", " Ada@Example.org ").leads("/account/sign-up/sent")
		b.get("/account/sign-up/sent").shows(http.StatusOK, "Check your e-mail")

		link := svc.mail("ada@example.org", "confirm-address", 1).links()[0]
		form := b.get(link).shows(http.StatusOK, "Choose a password", "ada@example.org")
		b.get(link).shows(http.StatusOK, "Choose a password") // opening the link does not use it
		short := b.post("/account/confirm", "token", form.token(), "password", "short").shows(http.StatusUnprocessableEntity, "12 characters")
		require.NotContains(t, short.body, `"short"`, "what was typed as a password is not sent back")
		require.Empty(t, b.cookies["__Host-session"])
		b.confirm(link)
		b.other().get(link).shows(http.StatusGone, "has expired")
		b.other().post("/account/confirm", "token", form.token(), "password", goodPassword).shows(http.StatusGone)

		// only the authenticator pages until it is set up
		halfway := b.cookies["__Host-session"]
		for _, path := range []string{"/account", "/account/recovery-codes"} {
			b.get(path).leads("/account/authenticator")
		}
		b.get("/account/sign-in/code").leads("/account/authenticator")
		b.get("/account/lost-authenticator").leads("/account/authenticator")
		setup := b.get("/account/authenticator").shows(http.StatusOK, "Set up an authenticator")
		require.Contains(t, setup.body, `src="data:image/png;base64,`)
		require.Contains(t, setup.body, `otpauth://totp/`)
		b.email, b.password, b.seed = "ada@example.org", goodPassword, setup.seed()
		require.Equal(t, b.seed, b.get("/account/authenticator").seed(), "the page can be opened again")
		b.post("/account/authenticator", "code", b.wrongCode()).shows(http.StatusUnprocessableEntity, "The code is wrong")
		done := b.post("/account/authenticator", "code", b.code()).shows(http.StatusOK, "Your recovery codes", "Save them now")
		require.Len(t, codes.FindAllString(done.body, -1), 10)
		require.NotEqual(t, halfway, b.cookies["__Host-session"], "a new secret at each stage")
		b.get("/account").shows(http.StatusOK, "ada@example.org")
		b.get("/account/recovery-codes").shows(http.StatusOK, "10")
		b.get("/account/authenticator").leads("/account")
		b.get("/account/sign-in").leads("/account")
		old := b.other()
		old.cookies["__Host-session"] = halfway
		old.get("/account/sign-in/code").leads("/account/sign-in")

		// sign out and in again: the code of the set-up was used
		code := b.code()
		b.post("/account/sign-out").leads("/account/sign-in")
		b.get("/account/sign-in").shows(http.StatusOK, "You are signed out.")
		require.NotContains(t, b.get("/account/sign-in").text(), "You are signed out.", "said once")
		b.enterPassword().leads("/account/sign-in/code")
		b.get("/account/sign-in/code").shows(http.StatusOK, "Second step")
		b.post("/account/sign-in/code", "code", code).shows(http.StatusUnprocessableEntity, "already used")
		clock.move(30 * time.Second)
		b.post("/account/sign-in/code", "code", b.code()).leads("/account")
		b.get("/account").shows(http.StatusOK)
	})
}

func TestSessionsEnd(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		idle := b.other()
		clock.move(time.Minute)
		idle.enterPassword()
		idle.post("/account/sign-in/code", "code", idle.code()).leads("/account")
		b.get("/account").shows(http.StatusOK)
		for range 12 * 60 / 29 { // used continuously
			clock.move(29 * time.Minute)
			b.get("/account").shows(http.StatusOK)
		}
		idle.get("/account").leads("/account/sign-in")
		clock.move(29 * time.Minute)
		b.get("/account").leads("/account/sign-in")

		slow := b.other()
		slow.enterPassword().leads("/account/sign-in/code")
		clock.move(10 * time.Minute)
		slow.post("/account/sign-in/code", "code", slow.code()).leads("/account/sign-in")
	})
}

func TestSessionFixationIsPrevented(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		clock.move(time.Minute)
		victim := b.other()
		victim.cookies["__Host-session"] = "chosen-by-somebody-else"
		victim.enterPassword().leads("/account/sign-in/code")
		first := victim.cookies["__Host-session"]
		require.NotEqual(t, "chosen-by-somebody-else", first)
		victim.post("/account/sign-in/code", "code", victim.code()).leads("/account")
		require.NotEqual(t, first, victim.cookies["__Host-session"])
		thief := b.other()
		for _, secret := range []string{first, "chosen-by-somebody-else"} {
			thief.cookies["__Host-session"] = secret
			thief.get("/account").leads("/account/sign-in")
		}
	})
}

func TestNewBrowserSendsMail(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		clock.move(time.Minute)
		o := b.other()
		o.agent, o.address = "Mozilla/5.0 (Windows NT 10.0) Chrome/156.0 Safari/537.36", "2001:db8::1"
		o.enterPassword().leads("/account/sign-in/code")
		o.post("/account/sign-in/code", "code", o.code()).leads("/account")
		m := svc.mail(b.email, "new-sign-in", 1)
		for _, w := range []string{"20 November 2026, 09:01 UTC", "Chrome on Windows", "2001:db8::/48"} {
			require.Contains(t, m.plain, w)
		}
		for _, known := range []*browser{b, o} { // both are known now
			clock.move(time.Minute)
			known.post("/account/sign-out")
			known.enterPassword().leads("/account/sign-in/code")
			known.post("/account/sign-in/code", "code", known.code()).leads("/account")
		}
		clock.move(time.Minute)
		third := b.other()
		third.enterPassword()
		third.post("/account/sign-in/code", "code", third.code()).leads("/account")
		require.Contains(t, svc.mail(b.email, "new-sign-in", 2).plain, "09:04 UTC")
	})
}

// A set-up may take half an hour, and the scanned seed stays valid.
func TestASetUpMayTakeHalfAnHour(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.confirm(b.askFor("/account/sign-up", "ada@example.org", "confirm-address", 1))
		b.email, b.password = "ada@example.org", goodPassword
		b.seed = b.get("/account/authenticator").seed()
		late := b.other()
		late.enterPassword().leads("/account/sign-in/code")
		late.seed = late.get("/account/authenticator").seed()
		clock.move(29 * time.Minute)
		require.Equal(t, b.seed, b.get("/account/authenticator").seed())
		b.seed, late.seed = late.seed, b.seed
		b.post("/account/authenticator", "code", b.code()).shows(http.StatusUnprocessableEntity, "QR code on this page")
		b.seed, late.seed = late.seed, b.seed
		clock.move(59 * time.Second)
		b.post("/account/authenticator", "code", b.code()).shows(http.StatusOK, "Your recovery codes")
		clock.move(time.Second)
		late.get("/account/authenticator").leads("/account/sign-in")
	})
}
