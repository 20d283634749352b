package authquota_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTooLongPasswordIsRejected(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startWithClock(t)
		b := svc.browser()
		form := b.get(b.askFor("/account/sign-up", "ada@example.org", "confirm-address", 1)).shows(http.StatusOK, "Choose a password")
		require.NotContains(t, form.body, "maxlength", "a browser would cut a password without a word")
		long := strings.Repeat("walnut-harbour ", 9)
		b.post("/account/confirm", "token", form.token(), "password", long).shows(http.StatusUnprocessableEntity, "Use at most 128 characters.")
	})
}

// A person who cannot set up the authenticator can sign out.
func TestThePageOfTheAuthenticatorHasASignOut(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startWithClock(t)
		b := svc.browser()
		b.confirm(b.askFor("/account/sign-up", "ada@example.org", "confirm-address", 1))
		require.Contains(t, b.get("/account/authenticator").shows(http.StatusOK, "Sign out").body, `action="/account/sign-out"`)
		kept := *b
		kept.cookies = map[string]string{"__Host-session": b.cookies["__Host-session"]}
		b.post("/account/sign-out").leads("/account/sign-in")
		kept.get("/account/authenticator").leads("/account/sign-in")
	})
}
