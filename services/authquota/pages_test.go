package authquota_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesRequireSignIn(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		b := svc.browser()
		b.get("/account").leads("/account/sign-in")
		b.signIn("ada@example.org")
		b.get("/account").shows(http.StatusOK, "Overview", "ada@example.org", "Sign out")
		old := b.cookies["__Host-session"]
		out := b.post("/account/sign-out").leads("/account/sign-in")
		require.NotEmpty(t, out.header.Values("Set-Cookie"))
		require.Empty(t, b.cookies["__Host-session"])
		b.cookies["__Host-session"] = old
		b.get("/account").leads("/account/sign-in")
		b.post("/account/sign-out").leads("/account/sign-in")
	})
}
