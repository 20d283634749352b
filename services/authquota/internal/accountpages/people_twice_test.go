package accountpages_test

import (
	"net/http"
	"testing"

	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

// A form submitted twice, or from a second tab, does not sign out and grants nothing extra.
func TestAFormThatIsSentTwice(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		f.Advance(people.RecentProof)
		again := b.Other()
		again.Cookies["__Host-session"] = b.Cookies["__Host-session"]
		code := b.Code()
		b.Post("/account/security/confirm", "code", code, "next", "/account/security/email").Leads("/account/security/email")
		again.Post("/account/security/confirm", "code", code, "next", "/account/security/email").Leads("/account/security/email")
		again.Get("/account").Shows(http.StatusOK)
		again.Get("/account/security/email").Leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Femail") // the old secret comes without the proof
		b.Get("/account/security/email").Shows(http.StatusOK)
		f.Advance(people.SecretOverlap)
		again.Get("/account").Leads("/account/sign-in")
		if again.Cookies["__Host-session"] == "" {
			t.Fatal("the browser may have a newer cookie, which this answer must not take away")
		}

		// a new password invalidates the old secret immediately
		again.Cookies["__Host-session"] = b.Cookies["__Host-session"]
		b.Post("/account/security/password", "current", testkit.Password, "password", otherPassword).Leads("/account/security")
		again.Get("/account").Leads("/account/sign-in")
		b.Get("/account").Shows(http.StatusOK)

		// the second step, twice: the response to the second form arrives last
		phone := b.Other()
		phone.Password = otherPassword
		phone.EnterPassword().Leads("/account/sign-in/code")
		half := phone.Cookies["__Host-session"]
		f.Advance(people.TouchEvery)
		code = phone.Code()
		phone.Post("/account/sign-in/code", "code", code).Leads("/account")
		full := phone.Cookies["__Host-session"]
		phone.Cookies["__Host-session"] = half
		second := phone.Post("/account/sign-in/code", "code", code)
		if len(second.Header.Values("Set-Cookie")) > 0 {
			t.Fatal("the answer to the second form changes cookies")
		}
		phone.Cookies["__Host-session"] = full
		second.Leads("/account/sign-in")
		phone.Get("/account/sign-in").Leads("/account")
	})
}
