package accountpages_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/testkit"
)

func TestFormsOfVisitors(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.Visitor()
		b.Get("/account/sign-up").Shows(http.StatusOK, "Create an account")
		b.Get("/account/sign-in").Shows(http.StatusOK, "Sign in", "Create one")
		b.Get("/account").Leads("/account/sign-in")
	})
}

func TestSessionsEnd(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.SignUp("ada@example.org")
		idle := b.Other()
		f.Advance(time.Minute)
		idle.EnterPassword()
		idle.Post("/account/sign-in/code", "code", idle.Code()).Leads("/account")
		b.Get("/account").Shows(http.StatusOK)
		for range 12 * 60 / 29 { // used continuously
			f.Advance(29 * time.Minute)
			b.Get("/account").Shows(http.StatusOK)
		}
		idle.Get("/account").Leads("/account/sign-in")
		f.Advance(29 * time.Minute)
		b.Get("/account").Leads("/account/sign-in")

		slow := b.Other()
		slow.EnterPassword().Leads("/account/sign-in/code")
		f.Advance(10 * time.Minute)
		slow.Post("/account/sign-in/code", "code", slow.Code()).Leads("/account/sign-in")
	})
}

func TestSessionFixationIsPrevented(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		victim := b.Other()
		victim.Cookies["__Host-session"] = "chosen-by-somebody-else"
		victim.EnterPassword().Leads("/account/sign-in/code")
		first := victim.Cookies["__Host-session"]
		require.NotEqual(t, "chosen-by-somebody-else", first)
		victim.Post("/account/sign-in/code", "code", victim.Code()).Leads("/account")
		require.NotEqual(t, first, victim.Cookies["__Host-session"])
		thief := b.Other()
		for _, secret := range []string{first, "chosen-by-somebody-else"} {
			thief.Cookies["__Host-session"] = secret
			thief.Get("/account").Leads("/account/sign-in")
		}
	})
}

func TestNewBrowserSendsMail(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		o := b.Other()
		o.Agent, o.Address = "Mozilla/5.0 (Windows NT 10.0) Chrome/156.0 Safari/537.36", "2001:db8::1"
		o.EnterPassword().Leads("/account/sign-in/code")
		o.Post("/account/sign-in/code", "code", o.Code()).Leads("/account")
		m := f.mail(b.Email, "new-sign-in", 1)
		for _, w := range []string{"20 November 2026, 10:01 UTC", "Chrome on Windows", "2001:db8::/48"} {
			require.Contains(t, m.Text, w)
		}
		for _, known := range []*testkit.Person{b, o} { // both are known now
			f.Advance(time.Minute)
			known.Post("/account/sign-out")
			known.EnterPassword().Leads("/account/sign-in/code")
			known.Post("/account/sign-in/code", "code", known.Code()).Leads("/account")
		}
		f.Advance(time.Minute)
		third := b.Other()
		third.EnterPassword()
		third.Post("/account/sign-in/code", "code", third.Code()).Leads("/account")
		require.Contains(t, f.mail(b.Email, "new-sign-in", 2).Text, "10:04 UTC")
	})
}

// A set-up may take half an hour, and the scanned seed stays valid.
func TestASetUpMayTakeHalfAnHour(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.Visitor()
		f.confirm(b, f.askFor(b, "/account/sign-up", "ada@example.org", "confirm-address", 1))
		b.Email, b.Password = "ada@example.org", testkit.Password
		b.Seed = testkit.Seed(b.Get("/account/authenticator"))
		late := b.Other()
		late.EnterPassword().Leads("/account/sign-in/code")
		late.Seed = testkit.Seed(late.Get("/account/authenticator"))
		f.Advance(29 * time.Minute)
		require.Equal(t, b.Seed, testkit.Seed(b.Get("/account/authenticator")))
		b.Seed, late.Seed = late.Seed, b.Seed
		b.Post("/account/authenticator", "code", b.Code()).Shows(http.StatusUnprocessableEntity, "QR code on this page")
		b.Seed, late.Seed = late.Seed, b.Seed
		f.Advance(59 * time.Second)
		b.Post("/account/authenticator", "code", b.Code()).Shows(http.StatusOK, "Your recovery codes")
		f.Advance(time.Second)
		late.Get("/account/authenticator").Leads("/account/sign-in")
	})
}
