package accountpages_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/testkit"
)

// An attacker with the password who tries codes from many networks delays new browsers, but not
// known browsers or open sessions.
func TestAttackerWithPasswordDoesNotDelayOwner(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		guesser := b.Other()
		guesser.EnterPassword()
		for i := range 101 {
			guesser.Address = fmt.Sprintf("198.51.%d.1", i/10)
			guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).Shows(http.StatusUnprocessableEntity, "The code is wrong")
			if i == 9 {
				guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).Shows(http.StatusTooManyRequests)
			}
		}
		guesser.Address = "192.0.2.1"
		guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).Shows(http.StatusTooManyRequests)

		b.Post("/account/security/confirm", "code", b.Code()).Leads("/account/security")
		b.Post("/account/security/password", "current", testkit.Password, "password", otherPassword).Leads("/account/security")
		b.Password = otherPassword
		b.Post("/account/sign-out").Leads("/account/sign-in")
		f.Advance(30 * time.Second)
		guesser.Password = otherPassword
		guesser.EnterPassword().Leads("/account/sign-in/code")
		guesser.Post("/account/sign-in/code", "code", guesser.WrongCode()).Shows(http.StatusUnprocessableEntity)
		b.Address = "198.51.0.1" // even from where the guesser is
		b.EnterPassword().Leads("/account/sign-in/code")
		b.Post("/account/sign-in/code", "code", b.Code()).Leads("/account")

		// a new browser waits and then signs in
		phone := b.Other()
		phone.Address = "192.0.2.77"
		phone.EnterPassword().Leads("/account/sign-in/code")
		phone.Post("/account/sign-in/code", "code", phone.Code()).Shows(http.StatusTooManyRequests)
		f.Advance(time.Minute)
		phone.Post("/account/sign-in/code", "code", phone.Code()).Leads("/account")
	})
}

// A known browser is delayed by its own attempts only.
func TestAKnownBrowserIsCountedAlone(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		b.Post("/account/sign-out").Leads("/account/sign-in")
		b.EnterPassword().Leads("/account/sign-in/code")
		for i := range 10 {
			b.Address = fmt.Sprintf("198.51.%d.1", i)
			b.Post("/account/sign-in/code", "code", b.WrongCode()).Shows(http.StatusUnprocessableEntity)
		}
		b.Post("/account/sign-in/code", "code", b.Code()).Shows(http.StatusTooManyRequests)
		phone := b.Other()
		phone.EnterPassword().Leads("/account/sign-in/code")
		phone.Post("/account/sign-in/code", "code", phone.Code()).Leads("/account")

		// another account does not know the browser
		grace := f.SignUp("grace@example.org")
		stranger := grace.Other()
		stranger.Cookies["__Host-device"] = phone.Cookies["__Host-device"]
		stranger.EnterPassword().Leads("/account/sign-in/code")
		for range 10 {
			stranger.Post("/account/sign-in/code", "code", stranger.WrongCode()).Shows(http.StatusUnprocessableEntity)
		}
		delete(stranger.Cookies, "__Host-device")
		stranger.Post("/account/sign-in/code", "code", stranger.Code()).Shows(http.StatusTooManyRequests)
	})
}

// Attempts in one session do not delay others.
func TestASessionIsCountedAlone(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		phone := b.Other()
		f.signInAgain(phone)
		for range 10 {
			phone.Post("/account/security/confirm", "code", phone.WrongCode()).Shows(http.StatusUnprocessableEntity)
		}
		phone.Post("/account/security/confirm", "password", testkit.Password).Shows(http.StatusTooManyRequests)
		b.Post("/account/security/confirm", "password", testkit.Password).Leads("/account/security")
	})
}

// Requesting many mails for an address does not block its owner from the forms or from signing in.
// Excess mails are dropped silently.
func TestMailFormsAreNeverBlocked(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b, bob := f.member("ada@example.org"), f.member("bob@example.org")
		links := func(email string) (n int) {
			require.NoError(t, f.Raw("SELECT count(*) FROM links WHERE email = ?", email).Scan(&n).Error)
			return n
		}
		stranger := f.Visitor()
		before := links(b.Email)
		for i := range 15 {
			stranger.Address = fmt.Sprintf("198.51.%d.1", i)
			stranger.Post("/account/sign-up", "email", "eve@example.org").Leads("/account/sign-up/sent")
			stranger.Post("/account/forgot", "email", b.Email).Leads("/account/forgot/sent")
		}
		require.Equal(t, 10, links("eve@example.org"))
		require.Equal(t, 10, links(b.Email)-before)
		stranger.Get(f.mail("eve@example.org", "confirm-address", 1).links()[0]).Shows(http.StatusOK)
		stranger.Get(f.mail(b.Email, "reset-password", 1).links()[0]).Shows(http.StatusOK)
		half := b.Other()
		half.EnterPassword().Leads("/account/sign-in/code")
		half.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
		f.mail(b.Email, "authenticator-reset-asked", 1)

		neighbour := b.Other()
		neighbour.Address = "192.0.2.1"
		for i := range 101 {
			neighbour.Post("/account/forgot", "email", fmt.Sprintf("nobody%d@example.org", i)).Leads("/account/forgot/sent")
		}
		neighbour.Post("/account/forgot", "email", "somebody@example.org").Leads("/account/forgot/sent")
		require.Zero(t, links("somebody@example.org"))
		had := links(bob.Email)
		neighbour.Post("/account/forgot", "email", bob.Email).Leads("/account/forgot/sent")
		require.Equal(t, had+1, links(bob.Email), "resets of existing accounts have a share of their own")
		neighbour.EnterPassword().Leads("/account/sign-in/code")
	})
}
