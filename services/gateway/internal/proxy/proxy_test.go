package proxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/proxy"
)

// upstream is the transport to a service. It records the request and returns the response.
type upstream struct {
	response *http.Response
	body     *body // of the response
	err      error
	request  *http.Request
	sent     string // body of the request
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.request = r
	if r.Body != nil {
		sent, _ := io.ReadAll(r.Body)
		u.sent = string(sent)
	}
	return u.response, u.err
}

// body is a response body. After text, reading it fails with err.
type body struct {
	io.Reader

	err    error
	closed bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		return n, b.err
	}
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

const jsonType = "application/json"

// responds returns an upstream whose response has this status, body, and headers, given as pairs.
func responds(status int, text string, headers ...string) *upstream {
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Add(headers[i], headers[i+1])
	}
	b := &body{Reader: strings.NewReader(text)}
	return &upstream{response: &http.Response{StatusCode: status, Header: header, Body: b}, body: b}
}

func service(t *testing.T, u *upstream) *proxy.Service {
	t.Helper()
	return proxy.New("catalog", &url.URL{Scheme: "http", Host: "catalog:8080"}, "the token", u)
}

// fromClient returns a request with every header that must not reach a service, and these.
func fromClient(method, target string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for _, name := range []string{
		"Authorization", "Referer", "X-Forwarded-For", "X-Request-Id", "Connection", "X-Anything",
		api.CallerHeader, api.ClientHeader, api.ActorHeader, api.ExplorerHeader,
	} {
		r.Header.Set(name, "of the client")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// Nothing passes to a service by default.
func TestForwardSendsOnlyAllowedHeaders(t *testing.T) {
	u := responds(http.StatusOK, "{}", "Content-Type", jsonType)
	r := fromClient(http.MethodHead, "http://api.example/api/v1/opportunities/a%2Db?page=2&x=%20",
		"Accept", "a", "Accept-Encoding", "b", "If-None-Match", "c", "User-Agent", "d", "Content-Type", "e", "Cookie", "f")
	_, err := service(t, u).Forward(r, "/internal/a%2Db", "the caller")
	require.NoError(t, err)
	require.Equal(t, http.Header{
		"Accept": {"a"}, "Accept-Encoding": {"b"}, "If-None-Match": {"c"}, "User-Agent": nil, // nil: the transport adds none
		"Authorization": {"Bearer the token"}, api.CallerHeader: {"the caller"},
	}, u.request.Header)
	require.Equal(t, http.MethodHead, u.request.Method)
	require.Equal(t, "http://catalog:8080", u.request.URL.Scheme+"://"+u.request.URL.Host)
	require.Equal(t, "catalog:8080", u.request.Host)
	require.Equal(t, "page=2&x=%20", u.request.URL.RawQuery)
	require.Nil(t, u.request.Body)
	require.Equal(t, 1, u.request.ProtoMajor)
	require.Equal(t, 1, u.request.ProtoMinor)
	type key struct{}
	_, err = service(t, u).Forward(r.WithContext(context.WithValue(t.Context(), key{}, "of the request")), "/x", "")
	require.NoError(t, err)
	require.Equal(t, "of the request", u.request.Context().Value(key{}))
	require.NotContains(t, u.request.Header, api.CallerHeader, "a document has no caller")
}

// A response that violates the contract is a problem of the service and never reaches the client.
func TestResponsesOutsideTheContract(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
		want   problem.Code // empty: the response passes
	}{
		{http.StatusOK, jsonType, ""},
		{http.StatusOK, jsonType + "; charset=utf-8", ""},
		{http.StatusBadRequest, jsonType, ""},
		{http.StatusPaymentRequired, jsonType, ""},
		{http.StatusNotFound, jsonType, ""},
		{http.StatusNotModified, "", ""},
		{http.StatusOK, "text/html", problem.InternalError},
		{http.StatusNotFound, "", problem.InternalError},
		{http.StatusMethodNotAllowed, jsonType, problem.InternalError},
		{http.StatusFound, jsonType, problem.InternalError},
		{http.StatusInternalServerError, jsonType, problem.InternalError},
		{http.StatusUnauthorized, jsonType, problem.ServiceUnavailable}, // of the gateway's token
		{http.StatusForbidden, jsonType, problem.ServiceUnavailable},
		{http.StatusBadGateway, jsonType, problem.ServiceUnavailable},
		{http.StatusServiceUnavailable, jsonType, problem.ServiceUnavailable},
		{http.StatusGatewayTimeout, jsonType, problem.ServiceUnavailable},
	} {
		forward := responds(c.status, "{}", "Content-Type", c.kind)
		_, err := service(t, forward).Forward(httptest.NewRequest(http.MethodGet, "/", nil), "/", "{}")
		document := responds(c.status, "{}", "Content-Type", c.kind)
		_, documentErr := service(t, document).Forward(httptest.NewRequest(http.MethodGet, "/", nil), "/", "")
		if c.want == "" {
			require.NoError(t, err, c)
			require.NoError(t, documentErr, c)
			require.False(t, forward.body.closed, "Write needs the body")
			continue
		}
		require.Equal(t, c.want, problem.Of(err).Code, c)
		require.True(t, forward.body.closed, c)
		if c.status == http.StatusOK || c.status == http.StatusNotFound { // documents have any media type
			require.NoError(t, documentErr, c)
			continue
		}
		require.Equal(t, c.want, problem.Of(documentErr).Code, c)
		require.True(t, document.body.closed, c)
	}
}

func TestUnreachableService(t *testing.T) {
	s := service(t, &upstream{err: errors.New("connection refused")})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	_, forward := s.Forward(r, "/", "{}")
	_, document := s.Forward(r, "/", "")
	_, page := s.Page(r, "/", nil, netip.Addr{})
	for _, err := range []error{forward, document, page} {
		require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)
		require.ErrorContains(t, err, "connection refused")
	}
}

func TestErrorCodeLeavesBody(t *testing.T) {
	long := `{"error":{"code":"invalid_parameter","message":"` + strings.Repeat("m", 10<<10) + `"}}`
	for text, want := range map[string]problem.Code{
		`{"error":{"code":"unknown_parameter","message":"m"}}`: problem.UnknownParameter,
		"":   "", // HEAD
		long: "", // beyond the limit
	} {
		u := responds(http.StatusBadRequest, text, "Content-Type", jsonType)
		response, err := service(t, u).Forward(httptest.NewRequest(http.MethodGet, "/", nil), "/", "{}")
		require.NoError(t, err)
		require.Equal(t, want, response.ErrorCode())
		written := httptest.NewRecorder()
		require.NoError(t, response.Write(written))
		require.Equal(t, text, written.Body.String())
		require.True(t, u.body.closed)
	}
}

func TestResponseHasOnlyContractHeaders(t *testing.T) {
	passing := http.Header{
		"Content-Type": {jsonType}, "Content-Encoding": {"gzip"}, "Content-Length": {"2"}, "Etag": {`W/"a"`},
		"Cache-Control": {"private"},
		"Vary":          {"Authorization"}, "Link": {"<a>", "<b>"}, "Deprecation": {"@1"}, "Sunset": {"s"},
	}
	u := responds(http.StatusOK, "{}", "Set-Cookie", "a=b", "Server", "s", "Location", "/", "X-Opportunity-Caller", "c")
	for name, v := range passing {
		u.response.Header[name] = v
	}
	response, err := service(t, u).Forward(httptest.NewRequest(http.MethodGet, "/", nil), "/", "{}")
	require.NoError(t, err)
	written := httptest.NewRecorder()
	written.Header().Set("Vary", "Accept-Encoding")
	require.NoError(t, response.Write(written))
	want := passing.Clone()
	want["Vary"] = []string{"Accept-Encoding", "Authorization"}
	require.Equal(t, want, written.Result().Header)
	require.Equal(t, "{}", written.Body.String())
	require.True(t, u.body.closed)
}

func TestTruncatedResponse(t *testing.T) {
	for _, c := range []struct {
		cause error
		want  bool
	}{{errors.New("connection reset"), true}, {io.ErrUnexpectedEOF, true}, {context.Canceled, true}, {nil, false}} {
		u := responds(http.StatusOK, "{", "Content-Type", jsonType)
		u.body.err = c.cause
		response, err := service(t, u).Forward(httptest.NewRequest(http.MethodGet, "/", nil), "/", "{}")
		require.NoError(t, err)
		written := httptest.NewRecorder()
		err = response.Write(written)
		require.Equal(t, c.want, errors.Is(err, proxy.ErrTruncated), "%v", c.cause)
		if c.want {
			require.ErrorIs(t, err, c.cause)
		}
		require.Equal(t, "{", written.Body.String())
	}
}

// gone is a client that does not read.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestClientThatStopsReadingIsToldApart(t *testing.T) {
	response, err := service(t, responds(http.StatusOK, "{}", "Content-Type",
		jsonType)).Forward(httptest.NewRequest(http.MethodGet, "/", nil), "/", "{}")
	require.NoError(t, err)
	require.ErrorIs(t, response.Write(gone{httptest.NewRecorder()}), context.Canceled)
}

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
