package accountpages_test

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/testkit"
)

var codes = regexp.MustCompile(`<li><code>([^<]+)</code></li>`)

func TestARecoveryCodeSignsInOnce(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.SignUp("ada@example.org")
		o := b.Other()
		o.EnterPassword()
		o.Post("/account/sign-in/code", "code", "  "+o.Codes[3]+" ").Leads("/account")
		require.Contains(t, f.mail(b.Email, "recovery-code-used", 1).Text, "9")
		o.Get("/account/recovery-codes").Shows(http.StatusOK, "9")
		again := b.Other()
		again.EnterPassword()
		again.Post("/account/sign-in/code", "code", o.Codes[3]).Shows(http.StatusUnprocessableEntity, "wrong or was already used")

		fresh := o.Post("/account/recovery-codes").Shows(http.StatusOK, "Save them now")
		f.mail(b.Email, "factor-changed", 1)
		again.Post("/account/sign-in/code", "code", o.Codes[4]).Shows(http.StatusUnprocessableEntity)
		again.Post("/account/sign-in/code", "code", fresh.Find(codes)).Leads("/account")

		f.Advance(10 * time.Minute) // the proof is no longer recent
		o.Post("/account/recovery-codes").Leads("/account/security/confirm?next=%2Faccount%2Frecovery-codes")
	})
}

func TestAForgottenPassword(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		stranger := b.Other()
		stranger.Get("/account/forgot").Shows(http.StatusOK, "Forgotten password")
		late := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 1)
		stranger.Get("/account/forgot/sent").Shows(http.StatusOK, "Check your email")
		stranger.Get(late).Shows(http.StatusOK, "Choose a new password", b.Email)
		f.Advance(time.Hour)
		stranger.Get(late).Shows(http.StatusGone)
		b.Get("/account").Leads("/account/sign-in") // idle by now

		b.EnterPassword()
		b.Post("/account/sign-in/code", "code", b.Code()).Leads("/account")
		first := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 2)
		second := f.askFor(stranger, "/account/forgot", b.Email, "reset-password", 3)
		token := testkit.Token(stranger.Get(second))
		stranger.Post("/account/reset", "token", token, "password", "ada@example.org").Shows(http.StatusUnprocessableEntity)
		stranger.Post("/account/reset", "token", token, "password", "nineteen-quiet-bicycles-sing").Leads("/account/sign-in")
		stranger.Get("/account/sign-in").Shows(http.StatusOK, "Your password was changed")
		for _, link := range []string{first, second} {
			stranger.Get(link).Shows(http.StatusGone)
		}
		stranger.Post("/account/reset", "token", token, "password", testkit.Password).Shows(http.StatusGone)
		f.mail(b.Email, "password-changed", 1)
		b.Get("/account").Leads("/account/sign-in") // every session has ended

		f.Advance(time.Minute)
		stranger.EnterPassword().Shows(http.StatusUnprocessableEntity)
		stranger.Password = "nineteen-quiet-bicycles-sing"
		stranger.EnterPassword().Leads("/account/sign-in/code")
		stranger.Get("/account").Leads("/account/sign-in/code") // the second factor is still required
		stranger.Post("/account/sign-in/code", "code", stranger.Code()).Leads("/account")
	})
}

func TestALostAuthenticator(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		o := b.Other()
		ask := func(n int) (lost, keep string) {
			t.Helper()
			o.EnterPassword().Leads("/account/sign-in/code")
			o.Get("/account/lost-authenticator").Shows(http.StatusOK, "three days")
			o.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
			o.Get("/account/lost-authenticator/sent").Shows(http.StatusOK, "Check your email")
			found := f.mail(b.Email, "authenticator-reset-asked", n).links()
			require.Len(t, found, 2)
			return found[0], found[1]
		}
		begin := func(lost string) {
			t.Helper()
			form := o.Get(lost).Shows(http.StatusOK, "Is the authenticator lost?")
			o.Post("/account/lost-authenticator/confirm", "token", testkit.Token(form)).Leads("/account/sign-in")
		}
		signsInByCode := func() {
			t.Helper()
			f.Advance(time.Minute)
			o.EnterPassword().Leads("/account/sign-in/code")
			o.Post("/account/sign-in/code", "code", o.Code()).Leads("/account")
		}

		// cancelled by the link in the mail
		lost, keep := ask(1)
		begin(lost)
		o.Get(lost).Shows(http.StatusGone)
		o.Post("/account/lost-authenticator/cancel", "token", testkit.Token(o.Get(keep).Shows(http.StatusOK, "Keep the authenticator?"))).Leads("/account/sign-in")
		o.Get(keep).Shows(http.StatusGone)
		f.Advance(73 * time.Hour)
		o.EnterPassword().Leads("/account/sign-in/code")

		// cancelled before it started
		lost, keep = ask(2)
		o.Post("/account/lost-authenticator/cancel", "token", testkit.Token(o.Get(keep))).Leads("/account/sign-in")
		o.Get(lost).Shows(http.StatusGone)

		// cancelled by signing in completely
		lost, keep = ask(3)
		begin(lost)
		signsInByCode()
		o.Get(keep).Shows(http.StatusGone)
		f.Advance(73 * time.Hour)
		o.EnterPassword().Leads("/account/sign-in/code")

		// too late to start
		lost, _ = ask(4)
		f.Advance(24 * time.Hour)
		o.Get(lost).Shows(http.StatusGone)

		// removed after the waiting period, not before
		lost, _ = ask(5)
		begin(lost)
		f.Advance(72*time.Hour - time.Second)
		o.EnterPassword().Leads("/account/sign-in/code")
		o.Get("/account/lost-authenticator").Shows(http.StatusOK, "The authenticator will be removed on")
		f.Advance(time.Second)
		o.EnterPassword()
		f.mail(b.Email, "authenticator-reset", 1)
		o.Get("/account").Leads("/account/authenticator")
		old := o.Seed
		o.Seed = testkit.Seed(o.Get("/account/authenticator"))
		require.NotEqual(t, old, o.Seed)
		o.Post("/account/authenticator", "code", o.Code()).Shows(http.StatusOK, "Your recovery codes")
		f.Advance(time.Minute)
		o.EnterPassword()
		o.Post("/account/sign-in/code", "code", b.Codes[0]).Shows(http.StatusUnprocessableEntity)
		o.Post("/account/sign-in/code", "code", o.Code()).Leads("/account")
	})
}
