package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
)

// listExample responds with the example of the list.
func listExample(t *testing.T) http.HandlerFunc {
	t.Helper()
	d, err := apidoc.Published()
	require.NoError(t, err)
	o, _ := d.Operation("listOpportunities")
	return respond(http.StatusOK, o.Example.Response)
}

// message sends a message as a client of an older version of the protocol does.
func (r replica) message(t *testing.T, body string, header http.Header) response {
	t.Helper()
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	for name, values := range header {
		h[name] = values
	}
	return r.do(t, request{method: http.MethodPost, path: "/mcp", header: h, body: strings.NewReader(body)})
}

const (
	begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"c","version":"1"}}}`
	search = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"search_opportunities"}}`
)

func TestAgentNeedsAKeyOnlyForCalls(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	key := w.authquota.issue("acc_a", developer)
	w.catalog.respondWith(listExample(t))
	a := gw.message(t, begin, nil)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Contains(t, a.body, `"protocolVersion":"2025-06-18"`)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, http.StatusAccepted, gw.message(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		nil).status)
	require.Contains(t, gw.message(t, `{"jsonrpc":"2.0","id":7,"method":"nothing/here"}`, nil).body, `"code":-32601`)
	require.Equal(t, http.StatusAccepted, gw.message(t, `{"jsonrpc":"2.0","method":"notifications/nothing"}`, nil).status)
	a = gw.message(t, search, nil)
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, a.body, `"id":"a"`)
	require.Contains(t, a.body, "missing_api_key")
	require.Contains(t, a.body, `"isError":true`)
	require.Empty(t, a.header.Get("Www-Authenticate"), "it would make clients look for OAuth")

	bearer := http.Header{"Authorization": {"Bearer " + key.Reveal()}, "Origin": {publicURL}} // which some clients send
	require.Contains(t, gw.message(t, search, bearer).body, "/records/")
	w.authquota.change(key, func(p *api.Principal) { p.RevokedAt = new(p.ExpiresAt.AddDate(-1, 0, 0)) })
	require.Contains(t, gw.message(t, search, bearer).body, "revoked_api_key")
}

func TestAgentEndpointRejects(t *testing.T) {
	gw := newEnvironment(t).start()
	for _, c := range []struct {
		body   string
		header http.Header
		status int
		text   string
	}{
		{"[" + search + "," + search + "]", nil, 400, "batches are not supported"},
		{search, http.Header{"Origin": {"https://evil.example"}}, 403, "send no Origin"},
		{search, http.Header{"Origin": {"null"}}, 403, "send no Origin"},
		{`{"x":"` + strings.Repeat("x", 900<<10) + `"}`, nil, 400, "at most 64 KiB"},
		{"hello", nil, 400, "JSON object"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, `"id":null,`},
		{`{"method":"tools/list","id":1}`, nil, 400, ""},
		{search, http.Header{"Content-Type": {"text/plain"}}, 415, "application/json"},
		{search, http.Header{"Mcp-Protocol-Version": {"1999-01-01"}}, 400, "protocol version"},
	} {
		a := gw.message(t, c.body, c.header)
		require.Equal(t, c.status, a.status, a.body)
		require.Contains(t, a.body, c.text)
		require.Contains(t, a.body, `"jsonrpc":"2.0"`)
		require.Contains(t, a.body, `"error":{"code":-32600,`)
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} { // of sessions
		a := gw.do(t, request{method: method, path: "/mcp"})
		require.Equal(t, http.StatusMethodNotAllowed, a.status)
		require.Equal(t, http.MethodPost, a.header.Get("Allow"))
		require.Contains(t, a.body, "only POST")
	}
}
