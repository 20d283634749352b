package gateway_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/gateway"
)

// html answers with a page, as authquota does.
func html(status int, body string, header http.Header) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for name, v := range header {
			w.Header()[name] = v
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, body)
		}
	}
}

var browser = http.Header{"Accept": {"text/html,application/xhtml+xml;q=0.9"}}

// A page is asked for with what the browser says of itself, from an address that the gateway found, and with nothing that a
// stranger could pretend to be; its answer comes back as it is.
func TestPagesPassThrough(t *testing.T) {
	w := newWorld(t)
	gw := w.start(func(cfg *gateway.Config) { cfg.TrustedProxies = []string{"127.0.0.0/8"} })
	said := http.Header{
		"Set-Cookie": {"__Host-session=1; Secure; HttpOnly; SameSite=Lax; Path=/", "flash=; Max-Age=0"}, "Location": {"/account/keys"},
		"Content-Security-Policy": {"default-src 'none'; form-action 'self'"}, "Cache-Control": {"no-store"}, "Referrer-Policy": {"same-origin"},
		"Cross-Origin-Opener-Policy": {"same-origin"}, "Permissions-Policy": {"camera=()"}, "Clear-Site-Data": {`"cache"`}, "Vary": {"Cookie"},
		"X-Request-Id": {"of-the-service"}, "X-Opportunity-Secret": {"1"}, "Strict-Transport-Security": {"max-age=1"}, "Connection": {"X-Hop"},
	}
	w.authority.set(func() { w.authority.page = html(http.StatusSeeOther, "see other", said) })
	a := gw.do(t, request{method: http.MethodPost, path: "/account/sign-in?next=%2Faccount%2Fkeys", body: strings.NewReader("email=a&password=b"), header: http.Header{
		"Accept": {"text/html"}, "Accept-Language": {"fr"}, "Content-Type": {"application/x-www-form-urlencoded"}, "Cookie": {"a=b", "c=d"},
		"Origin": {publicURL}, "Sec-Fetch-Site": {"same-origin"}, "User-Agent": {"Mozilla/5.0"}, "If-None-Match": {`"1"`},
		"Authorization": {"Bearer x"}, "X-Opportunity-Client": {"192.0.2.1"}, "X-Opportunity-Caller": {"{}"}, "X-Opportunity-Actor": {"root"},
		"X-Forwarded-For": {"192.0.2.7, 198.51.100.1"}, "X-Forwarded-Host": {"evil.example"}, "Forwarded": {"host=evil.example"},
		"Referer": {publicURL + "/account/reset?token=secret"}, "X-Request-Id": {"made-up-by-the-caller"}, "X-Http-Method-Override": {"DELETE"},
	}})
	require.Equal(t, http.StatusSeeOther, a.status)
	require.Equal(t, "see other", a.body)
	for _, name := range []string{
		"Set-Cookie", "Location", "Content-Security-Policy", "Cache-Control", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Permissions-Policy",
		"Clear-Site-Data",
	} {
		require.Equal(t, said[name], a.header.Values(name), name)
	}
	require.Contains(t, a.header.Values("Vary"), "Cookie")
	require.Empty(t, a.header.Get("X-Opportunity-Secret"))
	require.Equal(t, []string{"max-age=31536000"}, a.header.Values("Strict-Transport-Security"))
	require.Len(t, a.header.Values("X-Request-Id"), 1)
	require.NotEqual(t, "of-the-service", a.header.Get("X-Request-Id"))
	require.Empty(t, a.header.Get("X-RateLimit-Limit"))

	pages, forms := w.authority.visited()
	require.Equal(t, []string{"email=a&password=b"}, forms)
	require.Equal(t, "/account/sign-in?next=%2Faccount%2Fkeys", pages[0].RequestURI)
	require.Equal(t, strings.TrimPrefix(w.authority.URL, "http://"), pages[0].Host)
	require.Equal(t, http.Header{
		"Accept": {"text/html"}, "Accept-Language": {"fr"}, "Content-Type": {"application/x-www-form-urlencoded"}, "Cookie": {"a=b", "c=d"},
		"Origin": {publicURL}, "Sec-Fetch-Site": {"same-origin"}, "User-Agent": {"Mozilla/5.0"}, "If-None-Match": {`"1"`}, "Content-Length": {"18"},
		"Authorization": {"Bearer " + internalToken}, "X-Opportunity-Client": {"198.51.100.1"}, "X-Request-Id": {a.header.Get("X-Request-Id")},
	}, pages[0].Header)
}

// Pages need neither a key nor Redis, are charged to nobody, and take any method that authquota takes.
func TestPagesNeedNoKeyAndNoRedis(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	w.redis.Stop()
	for _, c := range []struct {
		method string
		status int
		header http.Header
	}{
		{"GET", 200, nil},
		{"HEAD", 200, nil},
		{"POST", 422, nil},
		{"OPTIONS", 204, http.Header{"Allow": {"GET, HEAD"}}},
		{"DELETE", 405, http.Header{"Allow": {"GET, HEAD"}}},
		{"PURGE", 405, http.Header{"Allow": {"GET, HEAD"}}},
		{"GET", 503, nil},
	} {
		w.authority.set(func() { w.authority.page = html(c.status, "page", c.header) })
		a := gw.do(t, request{method: c.method, path: "/account/keys"})
		require.Equal(t, c.status, a.status, c.method)
		require.Equal(t, c.header.Get("Allow"), a.header.Get("Allow"), c.method)
		pages, _ := w.authority.visited()
		require.Equal(t, c.method, pages[0].Method)
		require.Equal(t, "127.0.0.1", pages[0].Header.Get("X-Opportunity-Client"))
	}
	for _, path := range []string{"/account//keys", "/account/../internal/v1/principals", "/account%2Fkeys", "/accounts"} {
		require.Equal(t, "not_found", gw.do(t, request{path: path}).code(t), path)
	}
	pages, _ := w.authority.visited()
	require.Empty(t, pages)
	require.Contains(t, w.log.String(), `"method":"other","route":"/account","status":405`)
}

// What authquota cannot answer the gateway says itself: to a person in a page, to a program as everywhere.
func TestPagesAway(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	for name, c := range map[string]struct {
		down   bool
		page   http.HandlerFunc
		status int
		code   string
	}{
		"away":                          {true, nil, 503, "service_unavailable"},
		"502 of something in between":   {false, html(502, "<b>mesh</b>", nil), 503, "service_unavailable"},
		"503 of something in between":   {false, says(503, "mesh"), 503, "service_unavailable"},
		"refusal of the internal token": {false, html(401, "x", http.Header{"Www-Authenticate": {"Bearer"}}), 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			w.authority.set(func() { w.authority.down, w.authority.page = c.down, c.page })
			a := gw.do(t, request{path: "/account?token=secret"})
			require.Equal(t, c.status, a.status)
			require.Equal(t, c.code, a.code(t))
			a = gw.do(t, request{path: "/account?token=secret", header: browser})
			require.Equal(t, c.status, a.status)
			require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
			require.Equal(t, "no-store", a.header.Get("Cache-Control"))
			require.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'")
			require.Contains(t, a.body, "<h1>")
			require.NotContains(t, a.body, "mesh")
			require.Empty(t, a.header.Get("WWW-Authenticate"))
			if c.status == 503 {
				require.Equal(t, "1", a.header.Get("Retry-After"))
			}
		})
	}
	require.Equal(t, 8, w.outcomes()["upstream_fault"])
	require.NotContains(t, w.log.String(), "secret")
}

// Somebody who mistypes an address gets a page; whoever calls the API gets what the contract says, whatever they accept.
func TestErrorsForPeople(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	for _, path := range []string{"/docs/nothing", "/nothing", "/account//"} {
		a := gw.do(t, request{path: path, header: browser})
		require.Equal(t, 404, a.status)
		require.Contains(t, a.body, "<title>Not Found", path)
	}
	for _, path := range []string{"/api/v1/opportunities", "/api/nothing"} {
		require.Equal(t, "application/json", gw.do(t, request{path: path, header: browser}).header.Get("Content-Type"), path)
	}
	a := gw.do(t, request{path: "/", header: browser})
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `href="/account"`)
	require.Contains(t, a.body, `href="/docs/`)
}

func TestFormsAreSmall(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	post := func(body io.Reader) answer {
		return gw.do(t, request{method: http.MethodPost, path: "/account/keys", body: body})
	}
	most := strings.Repeat("a", 64<<10)
	require.Equal(t, 200, post(strings.NewReader(most)).status)
	_, forms := w.authority.visited()
	require.Equal(t, most, forms[0])
	for _, body := range []io.Reader{strings.NewReader(most + "a"), io.MultiReader(strings.NewReader(most + "a"))} {
		a := post(body)
		require.Equal(t, 400, a.status)
		require.Contains(t, a.body, "64 KiB")
	}
	// One that ends early has come to nothing.
	conn, err := net.Dial("tcp", strings.TrimPrefix(gw.url, "http://"))
	require.NoError(t, err)
	_, _ = io.WriteString(conn, "POST /account/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nname")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	told, _ := io.ReadAll(conn)
	require.NoError(t, conn.Close())
	require.Contains(t, string(told), "HTTP/1.1 400")
	pages, _ := w.authority.visited()
	require.Empty(t, pages)
}

// A page may show a secret beside something that a stranger put there, so its length must not depend on both; a style sheet may.
func TestSecretsAreNotCompressed(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	long := strings.Repeat("a", 5000)
	w.authority.set(func() { w.authority.page = html(200, long, nil) })
	for path, encoding := range map[string]string{"/account": "", "/account/keys": "", "/account/static/style.css": "gzip"} {
		a := gw.do(t, request{path: path, header: http.Header{"Accept-Encoding": {"gzip"}}})
		require.Equal(t, encoding, a.header.Get("Content-Encoding"), path)
	}
}

func TestStrictTransportOnlyForHTTPS(t *testing.T) {
	w := newWorld(t)
	secure, plain := w.start(), w.start(func(cfg *gateway.Config) { cfg.PublicURL = "http://localhost:8080" })
	w.authority.set(func() { w.authority.page = html(200, "", http.Header{"Strict-Transport-Security": {"max-age=1"}}) })
	for _, path := range []string{"/docs", "/account", "/nothing", "/api/jobs"} {
		require.Equal(t, "max-age=31536000", secure.do(t, request{path: path}).header.Get("Strict-Transport-Security"), path)
		require.Empty(t, plain.do(t, request{path: path}).header.Get("Strict-Transport-Security"), path)
	}
}

// What history publishes of itself is for everybody.
func TestCheckpointsArePublic(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	w.redis.Stop()
	const all, one = "/.well-known/opportunity-history", "/.well-known/opportunity-history/2026-11-20"
	const heads = one + ".heads"
	w.history.will(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.Header().Set("Cache-Control", "public, max-age=86400")
		rw.Header().Set("Set-Cookie", "a=b")
		_, _ = io.Copy(rw, bytes.NewReader([]byte("checkpoint\n")))
	})
	for _, path := range []string{all, one, heads} {
		a := gw.do(t, request{path: path, header: http.Header{"Cookie": {"a=b"}, "Authorization": {"Bearer hello"}, "If-None-Match": {`"1"`}}})
		require.Equal(t, 200, a.status)
		require.Equal(t, "checkpoint\n", a.body)
		require.Equal(t, "public, max-age=86400", a.header.Get("Cache-Control"))
		require.Empty(t, a.header.Get("Set-Cookie"))
		require.Equal(t, 200, gw.do(t, request{method: http.MethodHead, path: path}).status)
		require.Equal(t, 204, gw.do(t, request{method: http.MethodOptions, path: path}).status)
		a = gw.do(t, request{method: http.MethodPost, path: path})
		require.Equal(t, 405, a.status)
		require.Equal(t, "GET, HEAD, OPTIONS", a.header.Get("Allow"))
		require.Equal(t, "body_not_allowed", gw.do(t, request{method: http.MethodGet, path: path, body: strings.NewReader("x")}).code(t))
	}
	asked := w.history.requests()
	require.Len(t, asked, 6)
	require.Equal(t, all, asked[0].RequestURI)
	require.Equal(t, "Bearer "+internalToken, asked[0].Header.Get("Authorization"))
	require.Equal(t, `"1"`, asked[0].Header.Get("If-None-Match"))
	require.Empty(t, asked[0].Header.Get("Cookie"))
	require.Empty(t, asked[0].Header.Get("X-Opportunity-Caller"))
	w.history.will(says(404, `{"error":{"code":"not_found"}}`))
	require.Equal(t, "not_found", gw.do(t, request{path: one}).code(t))
	w.history.will(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.Equal(t, "service_unavailable", gw.do(t, request{path: one}).code(t))
	require.Contains(t, w.log.String(), `"route":"/.well-known/opportunity-history/{name}","status":200`)
}

// An address that somebody typed with a slash too many leads to its page; those of the API are exact.
func TestPagesWithASlashTooMany(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	for from, to := range map[string]string{
		"/account/": "/account", "/account/keys/": "/account/keys", "/account/confirm/?token=a%2Fb": "/account/confirm?token=a%2Fb",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			a := gw.do(t, request{method: method, path: from, header: browser})
			require.Equal(t, http.StatusPermanentRedirect, a.status, from)
			require.Equal(t, to, a.header.Get("Location"))
			require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		}
	}
	for _, path := range []string{
		"/account//", "/account/../", "/account/keys//", "/account%2F", "/accounts/", "/api/v1/opportunities/", "/api/jobs/", "/docs/account/",
		"/.well-known/opportunity-history/", "//evil.example/account/", "/account/%6beys/",
	} {
		require.Equal(t, http.StatusNotFound, gw.do(t, request{path: path}).status, path)
	}
	pages, _ := w.authority.visited()
	require.Empty(t, pages)
}

// An error that is no page is not to be taken for one.
func TestErrorsBesidePagesAreNotSniffed(t *testing.T) {
	w := newWorld(t)
	gw := w.start()
	a := gw.do(t, request{method: http.MethodPost, path: "/account/sign-in", body: strings.NewReader(strings.Repeat("x", 65<<10))})
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
}
