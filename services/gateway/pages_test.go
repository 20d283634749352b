package gateway_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/gateway"
)

// html returns a handler that responds with a page.
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

// The pages of authquota get the browser's own headers and the client address, but no forged
// identity. Their response passes unchanged.
func TestPagesPassThrough(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start(func(cfg *gateway.Config) { cfg.TrustedProxies = []string{"127.0.0.0/8"} })
	sent := http.Header{
		"Set-Cookie":              {"__Host-session=1; Secure; HttpOnly; SameSite=Lax; Path=/", "flash=; Max-Age=0"},
		"Location":                {"/account/keys"},
		"Content-Security-Policy": {"default-src 'none'; form-action 'self'"}, "Cache-Control": {"no-store"},
		"Referrer-Policy":            {"same-origin"},
		"Cross-Origin-Opener-Policy": {"same-origin"}, "Permissions-Policy": {"camera=()"}, "Clear-Site-Data": {`"cache"`},
		"Vary":                 {"Cookie"},
		"X-Opportunity-Secret": {"1"}, "Strict-Transport-Security": {"max-age=1"}, "Connection": {"X-Hop"},
	}
	w.authquota.set(func() { w.authquota.page = html(http.StatusSeeOther, "see other", sent) })
	a := gw.do(t, request{method: http.MethodPost, path: "/account/sign-in?next=%2Faccount%2Fkeys",
		body: strings.NewReader("email=a&password=b"), header: http.Header{
			"Accept": {"text/html"}, "Accept-Language": {"fr"}, "Content-Type": {"application/x-www-form-urlencoded"},
			"Cookie": {"a=b", "c=d"},
			"Origin": {publicURL}, "Sec-Fetch-Site": {"same-origin"}, "User-Agent": {"Mozilla/5.0"}, "If-None-Match": {`"1"`},
			"Authorization": {"Bearer x"}, "X-Opportunity-Client": {"192.0.2.1"}, "X-Opportunity-Caller": {"{}"},
			"X-Opportunity-Actor": {"root"},
			"X-Forwarded-For":     {"192.0.2.7, 198.51.100.1"}, "X-Forwarded-Host": {"evil.example"},
			"Forwarded": {"host=evil.example"},
			"Referer":   {publicURL + "/account/reset?token=secret"}, "X-Request-Id": {"made-up-by-the-caller"},
			"X-Http-Method-Override": {"DELETE"},
		}})
	require.Equal(t, http.StatusSeeOther, a.status)
	require.Equal(t, "see other", a.body)
	for _, name := range []string{
		"Set-Cookie", "Location", "Content-Security-Policy", "Cache-Control", "Referrer-Policy", "Cross-Origin-Opener-Policy",
		"Permissions-Policy",
		"Clear-Site-Data",
	} {
		require.Equal(t, sent[name], a.header.Values(name), name)
	}
	require.Contains(t, a.header.Values("Vary"), "Cookie")
	require.Empty(t, a.header.Get("X-Opportunity-Secret"))
	require.Equal(t, []string{"max-age=31536000"}, a.header.Values("Strict-Transport-Security"))
	require.Len(t, a.header.Values("X-Request-Id"), 1)
	require.Empty(t, a.header.Get("X-RateLimit-Limit"))

	pages, forms := w.authquota.takePages()
	require.Equal(t, []string{"email=a&password=b"}, forms)
	require.Equal(t, "/account/sign-in?next=%2Faccount%2Fkeys", pages[0].RequestURI)
	require.Equal(t, strings.TrimPrefix(w.authquota.URL, "http://"), pages[0].Host)
	require.Equal(t, http.Header{
		"Accept": {"text/html"}, "Accept-Language": {"fr"}, "Content-Type": {"application/x-www-form-urlencoded"},
		"Cookie": {"a=b", "c=d"},
		"Origin": {publicURL}, "Sec-Fetch-Site": {"same-origin"}, "User-Agent": {"Mozilla/5.0"}, "If-None-Match": {`"1"`},
		"Content-Length": {"18"},
		"Authorization":  {"Bearer " + servicetest.Token(peer.Gateway)}, "X-Opportunity-Client": {"198.51.100.1"},
		"X-Request-Id": {a.header.Get("X-Request-Id")},
	}, pages[0].Header)
}

// Pages need neither a key nor Redis and pass any method to authquota.
func TestPagesNeedNoKeyAndNoRedis(t *testing.T) {
	w := newEnvironment(t)
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
		{"GET", 503, nil},
	} {
		w.authquota.set(func() { w.authquota.page = html(c.status, "page", c.header) })
		a := gw.do(t, request{method: c.method, path: "/account/keys"})
		require.Equal(t, c.status, a.status, c.method)
		require.Equal(t, c.header.Get("Allow"), a.header.Get("Allow"), c.method)
		pages, _ := w.authquota.takePages()
		require.Equal(t, c.method, pages[0].Method)
		require.Equal(t, "127.0.0.1", pages[0].Header.Get("X-Opportunity-Client"))
	}
	for _, path := range []string{"/account//keys", "/account/../internal/v1/principals", "/account%2Fkeys", "/accounts"} {
		require.Equal(t, "not_found", gw.do(t, request{path: path}).code(t), path)
	}
	pages, _ := w.authquota.takePages()
	require.Empty(t, pages)
	w.authquota.set(func() { w.authquota.page = html(405, "page", http.Header{"Allow": {"GET, HEAD"}}) })
	purge := gw.do(t, request{method: "PURGE", path: "/account/keys"})
	require.Equal(t, 405, purge.status)
	require.Equal(t, "GET, HEAD", purge.header.Get("Allow"))
	w.awaitLog(t, `"method":"other","route":"/account","status":405`)
}

// While authquota is unavailable, the gateway responds with an error page to browsers and with JSON
// to other clients.
func TestPagesUnavailable(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	for name, c := range map[string]struct {
		down   bool
		page   http.HandlerFunc
		status int
		code   string
	}{
		"unavailable":            {true, nil, 503, "service_unavailable"},
		"502 of an intermediary": {false, html(502, "<b>mesh</b>", nil), 503, "service_unavailable"},
		"503 of an intermediary": {false, respond(503, "mesh"), 503, "service_unavailable"},
		"token rejected": {false, html(401, "x", http.Header{"Www-Authenticate": {"Bearer"}}), 503,
			"service_unavailable"},
		"call forbidden": {false, respond(403, `{"error":{"code":"forbidden"}}`), 503, "service_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			w.authquota.set(func() { w.authquota.down, w.authquota.page = c.down, c.page })
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
	require.Equal(t, 10, w.outcomes()["upstream_fault"])
	require.Contains(t, w.log.String(),
		"the token of gateway is rejected: compare authquota:... in OPPORTUNITY_PEER_TOKENS of gateway")
	require.NotContains(t, w.log.String(), "secret")
}

func TestFormSizeLimit(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	post := func(body io.Reader) response {
		return gw.do(t, request{method: http.MethodPost, path: "/account/keys", body: body})
	}
	largest := strings.Repeat("a", 64<<10)
	require.Equal(t, 200, post(strings.NewReader(largest)).status)
	_, forms := w.authquota.takePages()
	require.Equal(t, largest, forms[0])
	for _, body := range []io.Reader{strings.NewReader(largest + "a"), io.MultiReader(strings.NewReader(largest + "a"))} {
		a := post(body)
		require.Equal(t, 400, a.status)
		require.Contains(t, a.body, "64 KiB")
	}
	// A truncated form is not forwarded.
	conn, err := net.Dial("tcp", strings.TrimPrefix(gw.url, "http://"))
	require.NoError(t, err)
	_, _ = io.WriteString(conn, "POST /account/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nname")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	reply, _ := io.ReadAll(conn)
	require.NoError(t, conn.Close())
	require.Contains(t, string(reply), "HTTP/1.1 400")
	pages, _ := w.authquota.takePages()
	require.Empty(t, pages)
}

func TestLogIsPublic(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	w.redis.Stop()
	const all, one = "/.well-known/opportunity-history", "/.well-known/opportunity-history/log/checkpoint"
	const proof, tile = all + "/log/proof/x", all + "/log/generations/2-ab/tile/0/x001/067.p/8"
	w.history.respondWith(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.Header().Set("Cache-Control", "public, max-age=86400")
		rw.Header().Set("Set-Cookie", "a=b")
		_, _ = io.Copy(rw, bytes.NewReader([]byte("checkpoint\n")))
	})
	for _, path := range []string{all, one, proof, tile} {
		a := gw.do(t, request{path: path, header: http.Header{"Cookie": {"a=b"}, "Authorization": {"Bearer hello"},
			"If-None-Match": {`"1"`}}})
		require.Equal(t, 200, a.status)
		require.Equal(t, "checkpoint\n", a.body)
		require.Equal(t, "public, max-age=86400", a.header.Get("Cache-Control"))
		require.Empty(t, a.header.Get("Set-Cookie"))
		require.Equal(t, 200, gw.do(t, request{method: http.MethodHead, path: path}).status)
		require.Equal(t, 204, gw.do(t, request{method: http.MethodOptions, path: path}).status)
		a = gw.do(t, request{method: http.MethodPost, path: path})
		require.Equal(t, 405, a.status)
		require.Equal(t, "GET, HEAD, OPTIONS", a.header.Get("Allow"))
		require.Equal(t, "body_not_allowed",
			gw.do(t, request{method: http.MethodGet, path: path, body: strings.NewReader("x")}).code(t))
	}
	got := w.history.requests()
	require.Len(t, got, 8)
	require.Equal(t, all, got[0].RequestURI)
	require.Equal(t, "Bearer "+servicetest.Token(peer.Gateway), got[0].Header.Get("Authorization"))
	require.Equal(t, `"1"`, got[0].Header.Get("If-None-Match"))
	require.Empty(t, got[0].Header.Get("Cookie"))
	require.Empty(t, got[0].Header.Get("X-Opportunity-Caller"))
	for _, path := range []string{all + "/1.heads", all + "/1", all + "/2026-11-20"} {
		require.Equal(t, "not_found", gw.do(t, request{path: path}).code(t))
	}
	require.Len(t, w.history.requests(), len(got), "history is not asked")
	w.history.respondWith(respond(404, `{"error":{"code":"not_found"}}`))
	require.Equal(t, "not_found", gw.do(t, request{path: one}).code(t))
	w.history.respondWith(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.Equal(t, "service_unavailable", gw.do(t, request{path: one}).code(t))
	w.awaitLog(t, `"route":"/.well-known/opportunity-history/log","status":200`)
}
