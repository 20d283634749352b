package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
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
	for name, page := range map[string]http.HandlerFunc{
		"unavailable":            func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"502 of an intermediary": html(502, "<b>mesh</b>", nil),
	} {
		w.authquota.set(func() { w.authquota.page = page })
		require.Equal(t, "service_unavailable", gw.do(t, request{path: "/account?token=secret"}).code(t), name)
		a := gw.do(t, request{path: "/account?token=secret", header: browser})
		require.Equal(t, 503, a.status)
		require.Equal(t, "1", a.header.Get("Retry-After"))
		require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'")
		require.Contains(t, a.body, "<h1>")
		require.NotContains(t, a.body, "mesh")
	}
	require.Equal(t, 4, w.outcomes()["upstream_fault"])
	require.NotContains(t, w.log.String(), "secret")
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
	w.history.respondWith(respond(404, `{"error":{"code":"not_found"}}`))
	require.Equal(t, "not_found", gw.do(t, request{path: one}).code(t))
	w.history.respondWith(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.Equal(t, "service_unavailable", gw.do(t, request{path: one}).code(t))
	w.awaitLog(t, `"route":"/.well-known/opportunity-history/log","status":200`)
}
