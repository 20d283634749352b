package authquota_test

import (
	"net/http"
	"net/url"
	"regexp"
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

func TestEveryResponseHasTheHeaders(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b := s.start(t).browser()
		b.signIn("ada@example.org")
		for _, p := range []page{b.get("/account"), b.get("/account/no-such-page").shows(404), b.send("PUT", "/account", nil, nil).shows(405)} {
			require.Equal(t, "no-store", p.header.Get("Cache-Control"))
			require.Equal(t, "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "+
				"frame-ancestors 'none'; base-uri 'none'", p.header.Get("Content-Security-Policy"))
			require.Equal(t, "nosniff", p.header.Get("X-Content-Type-Options"))
			require.Equal(t, "same-origin", p.header.Get("Cross-Origin-Opener-Policy"))
			require.Equal(t, "same-origin", p.header.Get("Referrer-Policy"))
			require.NotEmpty(t, p.header.Get("Permissions-Policy"))
			require.Equal(t, "max-age=31536000", p.header.Get("Strict-Transport-Security"))
		}
	})
}

func TestFormsOfOtherSitesAreRejected(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b := s.start(t).browser()
		b.signIn("ada@example.org")
		for _, from := range []http.Header{
			{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"null"}},
		} {
			b.send(http.MethodPost, "/account/sign-out", url.Values{}, from).shows(http.StatusForbidden, "another site")
		}
		b.get("/account").shows(http.StatusOK)
		b.send(http.MethodPost, "/account/sign-out", url.Values{}, http.Header{"Origin": {"https://api.example"}}).leads("/account/sign-in")
	})
}

func TestStaticFilesAreImmutable(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		b := s.start(t).browser()
		b.signIn("ada@example.org")
		found := regexp.MustCompile(`(?:href|src)="(/account/static/[^"]+)"`).FindAllStringSubmatch(b.get("/account").body, -1)
		require.GreaterOrEqual(t, len(found), 3)
		for _, f := range found {
			p := b.get(f[1])
			require.Equal(t, http.StatusOK, p.status)
			require.Equal(t, "public, max-age=31536000, immutable", p.header.Get("Cache-Control"))
			require.NotEmpty(t, p.body)
			require.Empty(t, p.header.Values("Set-Cookie"))
		}
		b.get("/account/static/style.css").shows(http.StatusNotFound)
	})
}

func TestPagesNeedTheInternalToken(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		require.Equal(t, http.StatusUnauthorized, svc.doAs(http.MethodGet, "/account", nil, nil).status)
		require.Equal(t, http.StatusUnauthorized, svc.doAs(http.MethodGet, "/account/none", nil, nil).status)
	})
}
