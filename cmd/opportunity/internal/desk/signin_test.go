package desk_test

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/pkg/service/routetest"
)

func TestPagesRequireSignIn(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	for _, path := range []string{"/queue", "/reviews/maple", "/help", "/sessions", "/next"} {
		resp := b.get(path)
		require.Equal(t, http.StatusSeeOther, resp.StatusCode, path)
		require.Equal(t, "/sign-in?next="+url.QueryEscape(path), resp.Header.Get("Location"))
	}
	open := []string{"/sign-in", "/sign-in/once"}
	for _, path := range desk.Forms() {
		if !slices.Contains(open, path) {
			require.Equal(t, "/sign-in", b.post(path, url.Values{}).Header.Get("Location"), path)
		}
	}
	require.Empty(t, s.api.requests, "a request without a session reached the API")
}

func TestSignInSetsASealedCookie(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	resp := b.post("/sign-in", url.Values{"token": {" " + annsToken + "\n"}, "next": {"/help"}})
	require.Equal(t, "/help", resp.Header.Get("Location"))
	cookie := resp.Cookies()[0]
	require.Equal(t, "__Host-desk", cookie.Name)
	require.True(t, cookie.Secure && cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Equal(t, "/", cookie.Path)
	require.Empty(t, cookie.Domain)
	require.Contains(t, b.get("/help").body, "ann (admin)")
	require.NotContains(t, s.log.String(), annsToken)
}

func TestSignInContinuesOnTheDeskOnly(t *testing.T) {
	s := newServer(t)
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/x/../..//evil.example",
		"javascript:alert(1)", "\t//evil.example", ""} {
		resp := s.browser().post("/sign-in", url.Values{"token": {annsToken}, "next": {next}})
		require.Equal(t, "/", resp.Header.Get("Location"), next)
	}
}

// Only failures are throttled: a client that keeps failing must not lock out others behind the same
// proxy.
func TestUnknownTokensAreRejectedAndThrottled(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	unknown := url.Values{"token": {annsToken[:8] + "-that-the-gateway-does-not-know"}}
	for range 10 {
		resp := b.post("/sign-in", unknown)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		require.Contains(t, resp.body, "not valid")
	}
	resp := b.post("/sign-in", unknown)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "60", resp.Header.Get("Retry-After"))
	require.Equal(t, http.StatusUnauthorized,
		b.post("/sign-in", url.Values{"token": {"another-token-that-the-gateway-does-not-know"}}).StatusCode)
	require.Equal(t, http.StatusSeeOther, b.post("/sign-in", url.Values{"token": {annsToken}}).StatusCode)
	s.move(time.Minute)
	require.Equal(t, http.StatusUnauthorized, b.post("/sign-in", unknown).StatusCode)
}

func TestOneTimeURLSignsInOnce(t *testing.T) {
	s := newServer(t)
	path := strings.TrimPrefix(s.once, strings.Replace(s.URL, "127.0.0.1", "localhost", 1))
	require.NotContains(t, s.once, annsToken)
	for range 2 { // a preview of the link does not use it
		require.Contains(t, s.browser().get(path).body, "as <strong><bdi>ann</bdi></strong>")
	}
	_, code, _ := strings.Cut(path, "code=")
	b := s.browser()
	require.Equal(t, "/", b.post("/sign-in/once", url.Values{"code": {code}}).Header.Get("Location"))
	require.Equal(t, http.StatusOK, b.get("/help").StatusCode)
	require.Equal(t, http.StatusGone, s.browser().get(path).StatusCode)
	require.Equal(t, http.StatusGone, s.browser().post("/sign-in/once", url.Values{"code": {code}}).StatusCode)
	require.NotContains(t, s.log.String(), code)
}

func TestOneTimeURLExpires(t *testing.T) {
	s := newServer(t)
	_, code, _ := strings.Cut(s.once, "code=")
	s.move(desk.CodeLife)
	require.Equal(t, http.StatusGone, s.browser().post("/sign-in/once", url.Values{"code": {code}}).StatusCode)
}

func TestStolenCookieIsUselessAfterSignOut(t *testing.T) {
	s := newServer(t)
	b, thief := s.signedIn(), s.browser()
	at, _ := url.Parse(s.URL)
	thief.Jar.SetCookies(at, b.Jar.Cookies(at))
	require.Equal(t, http.StatusOK, thief.get("/help").StatusCode)
	require.Equal(t, "/sign-in", b.post("/sign-out", url.Values{}).Header.Get("Location"))
	require.Equal(t, http.StatusSeeOther, thief.get("/help").StatusCode)
	require.Equal(t, http.StatusSeeOther, b.get("/help").StatusCode)
}

func TestSessionsCanBeListedAndEnded(t *testing.T) {
	s := newServer(t)
	one, two := s.signedIn(), s.signedIn()
	page := one.get("/sessions")
	require.Equal(t, 2, strings.Count(page.body, "End session"))
	require.Equal(t, 1, strings.Count(page.body, "This browser"))
	first := page.body[strings.Index(page.body, "/sessions/"):]
	first = first[:strings.Index(first, `"`)]
	require.Equal(t, http.StatusSeeOther, one.post(first, url.Values{}).StatusCode)
	ended := 0
	for _, b := range []browser{one, two} {
		if b.get("/help").StatusCode == http.StatusSeeOther {
			ended++
		}
	}
	require.Equal(t, 1, ended)
}

func TestRemovedTokenEndsItsSessions(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	s.api.mu.Lock()
	clear(s.api.tokens)
	s.api.mu.Unlock()
	resp := b.get("/queue")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Contains(t, resp.body, "no longer valid")
	require.Equal(t, http.StatusSeeOther, b.get("/help").StatusCode)
}

func TestForeignHostsAreRejected(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for host, want := range map[string]int{
		"evil.example": 421, "evil.example:" + port: 421, "localhost": 421, "": 421, "127.0.0.1:1": 421, "169.254.169.254:" +
			port: 421,
		"localhost:" + port: 200, "127.0.0.1:" + port: 200, "[::1]:" + port: 200,
	} {
		r := b.request("GET", "/sign-in", nil)
		r.Host = host
		if host == "" {
			r.Host = "desk"
		}
		require.Equal(t, want, b.do(r).StatusCode, host)
	}
	r := b.request("GET", "/readyz", nil) // of a probe
	r.Host = "10.0.0.7:8082"
	require.Equal(t, http.StatusOK, b.do(r).StatusCode)
}

func TestNoFixedPathIsBesideAnID(t *testing.T) {
	routetest.RequireNoFixedPathBesideAnID(t, desk.Patterns())
}

func TestFormsOfOtherSitesAreRejected(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}},
		{"Origin": {"null"}},
	} {
		for _, path := range desk.Forms() {
			r := b.request("POST", path, url.Values{"token": {annsToken}})
			r.Header.Del("Sec-Fetch-Site")
			for name, values := range header {
				r.Header[name] = values
			}
			require.Equal(t, http.StatusForbidden, b.do(r).StatusCode, "%s %v", path, header)
		}
	}
	require.Equal(t, http.StatusOK, b.get("/help").StatusCode, "a foreign form signed the person out")
	require.Len(t, s.api.requests, 1, "a foreign form reached the API after the sign-in")
}

func TestEveryPageHasTheHeaders(t *testing.T) {
	s := newServer(t)
	for _, resp := range []response{s.signedIn().get("/help"), s.browser().get("/sign-in"), s.browser().get("/queue"),
		s.signedIn().get("/nothing")} {
		require.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		require.Equal(t, "same-origin", resp.Header.Get("Referrer-Policy"))
	}
}

func TestAddressesOfTheDesk(t *testing.T) {
	for _, c := range []struct{ listen, public, want string }{
		{"127.0.0.1:0", "", "http://localhost:"},
		{"127.0.0.1:0", "https://desk.example.com", "https://desk.example.com"},
		{"0.0.0.0:0", "https://desk.example.com", "https://desk.example.com"},
		{"0.0.0.0:0", "", "set OPPORTUNITY_DESK_URL"},
		{"0.0.0.0:0", "http://desk.example.com", "use an https URL"},
		{"0.0.0.0:0", "https://desk.example.com/path", "use an https URL"},
	} {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", c.listen)
		require.NoError(t, err)
		d, err := desk.New(desk.Options{Listener: ln, PublicURL: c.public, Now: time.Now})
		if err != nil {
			require.ErrorContains(t, err, c.want)
		} else {
			require.True(t, strings.HasPrefix(d.URL(), c.want), d.URL())
			require.True(t, strings.HasSuffix(d.SignInURL(), "/sign-in"))
		}
		require.NoError(t, ln.Close())
	}
}

func TestSingleKeysCanBeSwitchedOff(t *testing.T) {
	b := newServer(t).signedIn()
	require.Contains(t, b.get("/help").body, "<body data-keys>")
	b.post("/help/keys", url.Values{"keys": {"off"}})
	require.NotContains(t, b.get("/help").body, "<body data-keys>")
	b.post("/help/keys", url.Values{"keys": {"on"}})
	require.Contains(t, b.get("/help").body, "<body data-keys>")
}
