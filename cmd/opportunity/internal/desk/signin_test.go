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
	"opportunity.internal/pkg/service/servicetest"
)

func TestPagesRequireSignIn(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	for _, path := range []string{"/queue", "/reviews/maple", "/help", "/sessions", "/next"} {
		require.Equal(t, "/sign-in?next="+url.QueryEscape(path), b.get(path).to())
	}
	for _, path := range desk.Forms() {
		if !slices.Contains([]string{"/sign-in", "/sign-in/once"}, path) {
			require.Equal(t, "/sign-in", b.post(path, url.Values{}).to(), path)
		}
	}
	require.Empty(t, s.api.requests, "a request without a session reached the API")
}

func TestSignInSetsASealedCookie(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	resp := b.post("/sign-in", url.Values{"token": {" " + annsToken + "\n"}, "next": {"/help"}})
	require.Equal(t, "/help", resp.to())
	c := resp.Cookies()[0]
	require.Equal(t, http.Cookie{Name: "__Host-desk", Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: c.MaxAge, Value: c.Value, Raw: c.Raw}, *c)
	b.get("/help").requireAll(t, "ann (admin)")
	require.NotContains(t, s.log.String(), annsToken)
}

func TestSignInContinuesOnTheDeskOnly(t *testing.T) {
	s := newServer(t)
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "/x/../..//evil.example",
		"javascript:alert(1)", "\t//evil.example", ""} {
		require.Equal(t, "/", s.browser().post("/sign-in", url.Values{"token": {annsToken}, "next": {next}}).to(), next)
	}
}

// Only failures are throttled: a client that keeps failing must not lock out others behind the same
// proxy.
func TestUnknownTokensAreRejectedAndThrottled(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	signIn := func(token string) response { return b.post("/sign-in", url.Values{"token": {token}}) }
	unknown := annsToken[:8] + "-that-the-gateway-does-not-know"
	for range 10 {
		resp := signIn(unknown)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		resp.requireAll(t, "not valid")
	}
	resp := signIn(unknown)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "60", resp.Header.Get("Retry-After"))
	require.Equal(t, http.StatusUnauthorized, signIn("another-token-that-the-gateway-does-not-know").StatusCode)
	require.Equal(t, "/", signIn(annsToken).to())
	s.Advance(time.Minute)
	require.Equal(t, http.StatusUnauthorized, signIn(unknown).StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, signIn("").StatusCode)
}

func TestOneTimeURLSignsInOnce(t *testing.T) {
	s := newServer(t)
	require.NotContains(t, s.once, annsToken)
	_, code, _ := strings.Cut(s.once, "code=")
	for range 2 { // a preview of the link does not use it
		s.browser().get("/sign-in/once?code="+code).requireAll(t, "as <strong><bdi>ann</bdi></strong>")
	}
	b := s.browser()
	require.Equal(t, http.StatusGone, b.post("/sign-in/once", url.Values{"code": {code + "x"}}).StatusCode)
	require.Equal(t, "/", b.post("/sign-in/once", url.Values{"code": {code}}).to())
	require.Equal(t, http.StatusOK, b.get("/help").StatusCode)
	require.Equal(t, http.StatusGone, s.browser().get("/sign-in/once?code="+code).StatusCode)
	require.Equal(t, http.StatusGone, s.browser().post("/sign-in/once", url.Values{"code": {code}}).StatusCode)
	require.NotContains(t, s.log.String(), code)

	s = newServer(t)
	_, code, _ = strings.Cut(s.once, "code=")
	s.Advance(desk.CodeLife)
	require.Equal(t, http.StatusGone, s.browser().post("/sign-in/once", url.Values{"code": {code}}).StatusCode)
}

func TestSessionsAreListedAndEnd(t *testing.T) {
	s := newServer(t)
	one, two, thief := s.signedIn(), s.signedIn(), s.browser()
	at, _ := url.Parse(s.URL)
	thief.Jar.SetCookies(at, two.Jar.Cookies(at))
	in := func(b browser) bool { return b.get("/help").StatusCode == http.StatusOK }
	require.True(t, in(thief))
	page := one.get("/sessions").body
	require.Equal(t, 2, strings.Count(page, "End session"))
	require.Equal(t, 1, strings.Count(page, "This browser"))
	require.Equal(t, "/sign-in", two.post("/sign-out", url.Values{}).to())
	require.False(t, in(thief), "a stolen cookie")
	_, id, _ := strings.Cut(one.get("/sessions").body, "/sessions/")
	id, _, _ = strings.Cut(id, "/")
	require.Equal(t, "/sessions", one.post("/sessions/"+id+"/end", url.Values{}).to())
	require.False(t, in(one))
}

func TestRemovedTokenEndsItsSessions(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	s.api.setRole("")
	resp := b.get("/queue")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	resp.requireAll(t, "no longer valid")
	require.Equal(t, http.StatusSeeOther, b.get("/help").StatusCode)
}

func TestForeignHostsAreRejected(t *testing.T) {
	s := newServer(t)
	b := s.browser()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for host, want := range map[string]int{
		"evil.example": 421, "evil.example:" + port: 421, "localhost": 421, "127.0.0.1:1": 421, "desk": 421,
		"169.254.169.254:" + port: 421, "localhost:" + port: 200, "127.0.0.1:" + port: 200, "[::1]:" + port: 200,
	} {
		r := b.request("GET", "/sign-in", nil)
		r.Host = host
		require.Equal(t, want, b.do(r).StatusCode, host)
	}
	r := b.request("GET", "/readyz", nil) // of a probe
	r.Host = "10.0.0.7:8082"
	require.Equal(t, http.StatusOK, b.do(r).StatusCode)
}

func TestNoFixedPathIsBesideAnID(t *testing.T) {
	servicetest.RequireNoFixedPathBesideAnID(t, desk.Patterns())
}

func TestFormsOfOtherSitesAreRejected(t *testing.T) {
	s := newServer(t)
	b := s.signedIn()
	for name, values := range map[string][]string{
		"Sec-Fetch-Site": {"cross-site", "same-site"}, "Origin": {"https://evil.example", "null"},
	} {
		for _, value := range values {
			for _, path := range desk.Forms() {
				r := b.request("POST", path, url.Values{"token": {annsToken}})
				r.Header.Del("Sec-Fetch-Site")
				r.Header.Set(name, value)
				require.Equal(t, http.StatusForbidden, b.do(r).StatusCode, "%s %s", path, value)
			}
		}
	}
	require.Equal(t, http.StatusOK, b.get("/help").StatusCode, "a foreign form signed the person out")
	require.Len(t, s.api.requests, 1, "a foreign form reached the API after the sign-in")
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
		defer ln.Close()
		d, err := desk.New(desk.Options{Listener: ln, PublicURL: c.public, Now: time.Now})
		if err != nil {
			require.ErrorContains(t, err, c.want)
			continue
		}
		require.True(t, strings.HasPrefix(d.URL(), c.want), d.URL())
		require.True(t, strings.HasSuffix(d.SignInURL(), "/sign-in"))
	}
}

func TestSingleKeysCanBeSwitchedOff(t *testing.T) {
	b := newServer(t).signedIn()
	for _, keys := range []string{"on", "off", "on"} {
		b.post("/help/keys", url.Values{"keys": {keys}})
		require.Equal(t, keys == "on", strings.Contains(b.get("/help").body, "<body data-keys>"))
	}
}
