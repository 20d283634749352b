package authquota_test

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestAPersonSignsUpAndIn(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.Get("/account").Leads("/account/sign-in")
		b.Get("/account/sign-in").Shows(http.StatusOK, "Sign in", "Create one")
		b.Get("/account/sign-up").Shows(http.StatusOK, "Create an account")
		b.Post("/account/sign-up", "email", "nonsense").Shows(http.StatusUnprocessableEntity, "Enter an email address")
		b.Post("/account/sign-up", "email", " Ada@Example.org ").Leads("/account/sign-up/sent")
		b.Get("/account/sign-up/sent").Shows(http.StatusOK, "Check your email")

		link := svc.mail("ada@example.org", "confirm-address", 1).links()[0]
		form := b.Get(link).Shows(http.StatusOK, "Choose a password", "ada@example.org")
		b.Get(link).Shows(http.StatusOK, "Choose a password") // opening the link does not use it
		short := b.Post("/account/confirm", "token", testkit.Token(form), "password", "short").Shows(http.StatusUnprocessableEntity, "12 characters")
		require.NotContains(t, short.Body, `"short"`, "what was typed as a password is not sent back")
		require.Empty(t, b.Cookies["__Host-session"])
		b.confirm(link)
		b.other().Get(link).Shows(http.StatusGone, "has expired")
		b.other().Post("/account/confirm", "token", testkit.Token(form), "password", testkit.Password).Shows(http.StatusGone)

		// only the authenticator pages until it is set up
		halfway := b.Cookies["__Host-session"]
		for _, path := range []string{"/account", "/account/recovery-codes"} {
			b.Get(path).Leads("/account/authenticator")
		}
		b.Get("/account/sign-in/code").Leads("/account/authenticator")
		b.Get("/account/lost-authenticator").Leads("/account/authenticator")
		setup := b.Get("/account/authenticator").Shows(http.StatusOK, "Set up an authenticator")
		require.Contains(t, setup.Body, `src="data:image/png;base64,`)
		require.Contains(t, setup.Body, `otpauth://totp/`)
		b.Email, b.Password, b.Seed = "ada@example.org", testkit.Password, testkit.Seed(setup)
		require.Equal(t, b.Seed, testkit.Seed(b.Get("/account/authenticator")), "the page can be opened again")
		b.Post("/account/authenticator", "code", b.WrongCode()).Shows(http.StatusUnprocessableEntity, "The code is wrong")
		done := b.Post("/account/authenticator", "code", b.Code()).Shows(http.StatusOK, "Your recovery codes", "Save them now")
		require.Len(t, regexp.MustCompile(`<li><code>`).FindAllString(done.Body, -1), 10)
		require.NotEqual(t, halfway, b.Cookies["__Host-session"], "a new secret at each stage")
		b.Get("/account").Shows(http.StatusOK, "ada@example.org")
		b.Get("/account/recovery-codes").Shows(http.StatusOK, "10")
		b.Get("/account/authenticator").Leads("/account")
		b.Get("/account/sign-in").Leads("/account")
		old := b.other()
		old.Cookies["__Host-session"] = halfway
		old.Get("/account/sign-in/code").Leads("/account/sign-in")

		// sign out and in again: the code of the set-up was used
		code := b.Code()
		b.Post("/account/sign-out").Leads("/account/sign-in")
		b.Get("/account/sign-in").Shows(http.StatusOK, "You are signed out.")
		require.NotContains(t, b.Get("/account/sign-in").Text(), "You are signed out.", "said once")
		b.EnterPassword().Leads("/account/sign-in/code")
		b.Get("/account/sign-in/code").Shows(http.StatusOK, "Second step")
		b.Post("/account/sign-in/code", "code", code).Shows(http.StatusUnprocessableEntity, "already used")
		clock.Advance(30 * time.Second)
		b.Post("/account/sign-in/code", "code", b.Code()).Leads("/account")
		b.Get("/account").Shows(http.StatusOK)
	})
}
