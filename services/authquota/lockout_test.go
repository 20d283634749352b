package authquota_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An attacker with the password who tries codes from many networks delays new browsers, but not known browsers or open
// sessions.
func TestAttackerWithPasswordDoesNotDelayOwner(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		guesser := b.other()
		guesser.enterPassword()
		for i := range 101 {
			guesser.address = fmt.Sprintf("198.51.%d.1", i/10)
			guesser.post("/account/sign-in/code", "code", guesser.wrongCode()).shows(http.StatusUnprocessableEntity, "The code is wrong")
			if i == 9 {
				guesser.post("/account/sign-in/code", "code", guesser.wrongCode()).shows(http.StatusTooManyRequests)
			}
		}
		guesser.address = "192.0.2.1"
		guesser.post("/account/sign-in/code", "code", guesser.wrongCode()).shows(http.StatusTooManyRequests)

		b.post("/account/security/confirm", "code", b.code()).leads("/account/security")
		b.post("/account/security/password", "current", goodPassword, "password", otherPassword).leads("/account/security")
		b.password = otherPassword
		b.post("/account/sign-out").leads("/account/sign-in")
		clock.move(30 * time.Second)
		guesser.password = otherPassword
		guesser.enterPassword().leads("/account/sign-in/code")
		guesser.post("/account/sign-in/code", "code", guesser.wrongCode()).shows(http.StatusUnprocessableEntity)
		b.address = "198.51.0.1" // even from where the guesser is
		b.enterPassword().leads("/account/sign-in/code")
		b.post("/account/sign-in/code", "code", b.code()).leads("/account")

		// a new browser waits and then signs in
		phone := b.other()
		phone.address = "192.0.2.77"
		phone.enterPassword().leads("/account/sign-in/code")
		phone.post("/account/sign-in/code", "code", phone.code()).shows(http.StatusTooManyRequests)
		clock.move(time.Minute)
		phone.post("/account/sign-in/code", "code", phone.code()).leads("/account")
	})
}

// A known browser is delayed by its own attempts only.
func TestAKnownBrowserIsCountedAlone(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		b.post("/account/sign-out").leads("/account/sign-in")
		b.enterPassword().leads("/account/sign-in/code")
		for i := range 10 {
			b.address = fmt.Sprintf("198.51.%d.1", i)
			b.post("/account/sign-in/code", "code", b.wrongCode()).shows(http.StatusUnprocessableEntity)
		}
		b.post("/account/sign-in/code", "code", b.code()).shows(http.StatusTooManyRequests)
		phone := b.other()
		phone.enterPassword().leads("/account/sign-in/code")
		phone.post("/account/sign-in/code", "code", phone.code()).leads("/account")

		// another account does not know the browser
		grace := b.svc.browser()
		grace.signUp("grace@example.org")
		stranger := grace.other()
		stranger.cookies["__Host-device"] = phone.cookies["__Host-device"]
		stranger.enterPassword().leads("/account/sign-in/code")
		for range 10 {
			stranger.post("/account/sign-in/code", "code", stranger.wrongCode()).shows(http.StatusUnprocessableEntity)
		}
		delete(stranger.cookies, "__Host-device")
		stranger.post("/account/sign-in/code", "code", stranger.code()).shows(http.StatusTooManyRequests)
	})
}

// Attempts in one session do not delay others.
func TestASessionIsCountedAlone(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		phone := b.other()
		phone.signInAgain(clock)
		for range 10 {
			phone.post("/account/security/confirm", "password", otherPassword).shows(http.StatusUnprocessableEntity)
		}
		phone.post("/account/security/confirm", "password", goodPassword).shows(http.StatusTooManyRequests)
		b.post("/account/security/confirm", "password", goodPassword).leads("/account/security")
	})
}

// Requesting many mails for an address does not block its owner from the forms or from signing in. Excess mails are dropped
// silently.
func TestMailFormsAreNeverBlocked(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, _ := s.member(t, "ada@example.org")
		links := func(email string) (n int) {
			require.NoError(t, s.open(t).Raw("SELECT count(*) FROM links WHERE email = ?", email).Scan(&n).Error)
			return n
		}
		stranger := b.svc.browser()
		before := links(b.email)
		for i := range 15 {
			stranger.address = fmt.Sprintf("198.51.%d.1", i)
			stranger.post("/account/sign-up", "email", "eve@example.org").leads("/account/sign-up/sent")
			stranger.post("/account/forgot", "email", b.email).leads("/account/forgot/sent")
		}
		require.Equal(t, 10, links("eve@example.org"))
		require.Equal(t, 10, links(b.email)-before)
		stranger.get(b.svc.mail("eve@example.org", "confirm-address", 10).links()[0]).shows(http.StatusOK)
		stranger.get(b.svc.mail(b.email, "reset-password", 10).links()[0]).shows(http.StatusOK)
		half := b.other()
		half.enterPassword().leads("/account/sign-in/code")
		half.post("/account/lost-authenticator").leads("/account/lost-authenticator/sent")
		b.svc.mail(b.email, "authenticator-reset-asked", 1)

		neighbour := b.other()
		neighbour.address = "192.0.2.1"
		for i := range 101 {
			neighbour.post("/account/forgot", "email", fmt.Sprintf("nobody%d@example.org", i)).leads("/account/forgot/sent")
		}
		neighbour.post("/account/forgot", "email", "somebody@example.org").leads("/account/forgot/sent")
		require.Zero(t, links("somebody@example.org"))
		neighbour.enterPassword().leads("/account/sign-in/code")
	})
}
