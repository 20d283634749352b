package authquota_test

import (
	"net/http"
	"testing"

	"opportunity.internal/services/authquota/internal/people/session"
)

// A form submitted twice, or from a second tab, does not sign out and grants nothing extra.
func TestAFormThatIsSentTwice(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b, clock := s.member(t, "ada@example.org")
		clock.move(session.RecentProof)
		again := b.other()
		again.cookies["__Host-session"] = b.cookies["__Host-session"]
		code := b.code()
		b.post("/account/security/confirm", "code", code, "next", "/account/security/email").leads("/account/security/email")
		again.post("/account/security/confirm", "code", code, "next", "/account/security/email").leads("/account/security/email")
		again.get("/account").shows(http.StatusOK)
		again.get("/account/security/email").leads("/account/security/confirm?next=%2Faccount%2Fsecurity%2Femail") // the old secret comes without the proof
		b.get("/account/security/email").shows(http.StatusOK)
		clock.move(session.Overlap)
		again.get("/account").leads("/account/sign-in")
		if again.cookies["__Host-session"] == "" {
			t.Fatal("the browser may have a newer cookie, which this answer must not take away")
		}

		// a new password invalidates the old secret immediately
		again.cookies["__Host-session"] = b.cookies["__Host-session"]
		b.post("/account/security/password", "current", goodPassword, "password", otherPassword).leads("/account/security")
		again.get("/account").leads("/account/sign-in")
		b.get("/account").shows(http.StatusOK)

		// the second step, twice: the response to the second form arrives last
		phone := b.other()
		phone.password = otherPassword
		phone.enterPassword().leads("/account/sign-in/code")
		half := phone.cookies["__Host-session"]
		clock.move(session.TouchEvery)
		code = phone.code()
		phone.post("/account/sign-in/code", "code", code).leads("/account")
		full := phone.cookies["__Host-session"]
		phone.cookies["__Host-session"] = half
		second := phone.post("/account/sign-in/code", "code", code)
		if len(second.header.Values("Set-Cookie")) > 0 {
			t.Fatal("the answer to the second form changes cookies")
		}
		phone.cookies["__Host-session"] = full
		second.leads("/account/sign-in")
		phone.get("/account/sign-in").leads("/account")
	})
}
