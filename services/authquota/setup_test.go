package authquota_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

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
