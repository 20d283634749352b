package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/proxy"
)

// browserHeaders are the headers of a browser that reach a page, as pairs.
var browserHeaders = []string{
	"Accept", "a", "Accept-Language", "b", "Content-Type", "c", "Cookie", "d", "If-Modified-Since", "e", "If-None-Match",
	"f", "Origin", "g",
	"Sec-Fetch-Dest", "h", "Sec-Fetch-Mode", "i", "Sec-Fetch-Site", "j", "Sec-Fetch-User", "k", "User-Agent", "l",
	proxy.SignatureHeader, "m",
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = []string{pairs[i+1]}
	}
	return h
}

func TestPageSendsBrowserHeadersAndClient(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"fe80::1%eth0": "fe80::1"} {
		u := responds(http.StatusOK, "")
		_, err := service(t, u).Page(fromClient(http.MethodPost, "/account?a=b", browserHeaders...), "/account",
			[]byte("form"), netip.MustParseAddr(address))
		require.NoError(t, err)
		require.Equal(t, header(append(browserHeaders, "Authorization", "Bearer the token", api.ClientHeader, want)...),
			u.request.Header)
		require.Equal(t, "form", u.sent)
		require.EqualValues(t, len("form"), u.request.ContentLength)
	}
	u := responds(http.StatusOK, "")
	_, err := service(t, u).Page(fromClient(http.MethodGet, "/account"), "/account", nil, netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, http.Header{"Authorization": {"Bearer the token"}, "User-Agent": nil}, u.request.Header,
		"an unknown client")
	require.Nil(t, u.request.Body)
}

func TestExploredMarksTheResult(t *testing.T) {
	u := responds(http.StatusOK, "")
	r := fromClient(http.MethodPost, "/account/explorer/a", "Content-Type", "application/x-www-form-urlencoded", "Cookie",
		"d")
	_, err := service(t, u).Explored(r, "/account/explorer/a", []byte("{}"), netip.MustParseAddr("192.0.2.1"))
	require.NoError(t, err)
	require.Equal(t, http.Header{
		"Content-Type": {jsonType}, "Cookie": {"d"}, "Authorization": {"Bearer the token"}, "User-Agent": nil,
		api.ExplorerHeader: {"result"}, api.ClientHeader: {"192.0.2.1"},
	}, u.request.Header)
	require.Equal(t, "{}", u.sent)
}

// A response of the pages passes unless it is not meant for a person.
func TestPagesThatPass(t *testing.T) {
	const html = "text/html; charset=utf-8"
	for _, c := range []struct {
		status      int
		kind        string
		challenge   string
		want        problem.Code // empty: the response passes
		wantsDetail string
	}{
		{status: http.StatusOK, kind: html},
		{status: http.StatusSeeOther},
		{status: http.StatusForbidden, kind: html},
		{status: http.StatusInternalServerError, kind: html},
		{status: http.StatusServiceUnavailable, kind: html},
		{status: http.StatusUnauthorized, kind: html},
		{status: http.StatusUnauthorized, kind: html, challenge: "Basic"},
		{status: http.StatusOK, kind: html, challenge: "Bearer"},
		{status: http.StatusUnauthorized, challenge: "Bearer", want: problem.ServiceUnavailable,
			wantsDetail: "OPPORTUNITY_PEER_TOKENS of gateway"},
		{status: http.StatusForbidden, kind: jsonType, want: problem.ServiceUnavailable,
			wantsDetail: "OPPORTUNITY_PEER_TOKENS of gateway"},
		{status: http.StatusServiceUnavailable, kind: jsonType, want: problem.ServiceUnavailable},
		{status: http.StatusBadGateway, kind: html, want: problem.ServiceUnavailable},
		{status: http.StatusGatewayTimeout, kind: html, want: problem.ServiceUnavailable},
		{status: http.StatusSwitchingProtocols, want: problem.InternalError},
	} {
		u := responds(c.status, "", "Content-Type", c.kind, "Www-Authenticate", c.challenge)
		response, err := service(t, u).Page(httptest.NewRequest(http.MethodGet, "/account", nil), "/account", nil,
			netip.Addr{})
		require.Equal(t, c.want != "", u.body.closed, c)
		if c.want == "" {
			require.NoError(t, err, c)
			require.Equal(t, c.status, response.StatusCode)
			continue
		}
		require.Equal(t, c.want, problem.Of(err).Code, c)
		require.ErrorContains(t, err, c.wantsDetail)
	}
}

// The headers of a page pass, except those of the connection, of the gateway and of the services
// among themselves.
func TestHeadersOfPages(t *testing.T) {
	u := responds(http.StatusOK, "page", "Set-Cookie", "a=b", "Set-Cookie", "c=d", "Location", "/", "X-Frame-Options",
		"DENY")
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		api.RequestIDHeader, "Strict-Transport-Security", api.CallerHeader, api.ExplorerHeader,
	} {
		u.response.Header.Set(name, "of the service")
	}
	response, err := service(t, u).Page(httptest.NewRequest(http.MethodGet, "/account", nil), "/account", nil,
		netip.Addr{})
	require.NoError(t, err)
	written := httptest.NewRecorder()
	require.NoError(t, response.Write(written))
	require.Equal(t, http.Header{"Set-Cookie": {"a=b", "c=d"}, "Location": {"/"}, "X-Frame-Options": {"DENY"}},
		written.Result().Header)
	require.Equal(t, "page", written.Body.String())
}
