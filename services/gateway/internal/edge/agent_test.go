package edge

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/apidoc"
)

// search calls a tool.
const search = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"search_opportunities"}}`

func TestMessagesOfAgents(t *testing.T) {
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	description, err := apidoc.Published()
	require.NoError(t, err)
	list, _ := description.Operation("listOpportunities")
	e := newEdge(t)
	e.admits(t, principal, nil)
	e.Catalog = replies(t, http.StatusOK, list.Example.Response, "Content-Type", jsonType)
	h := e.handler(t)
	for _, c := range []struct {
		body    string
		headers []string
		status  int
		text    string
	}{
		{begin, nil, 200, `"protocolVersion":"2025-06-18"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ""},
		{`{"jsonrpc":"2.0","id":7,"method":"nothing/here"}`, nil, 200, `"code":-32601`},
		{`{"jsonrpc":"2.0","method":"notifications/nothing"}`, nil, 202, ""},
		{search, nil, 200, "missing_api_key"}, // a result, so that the model reads it
		{search, nil, 200, `"isError":true`},
		{search, []string{"Authorization", bearer(), "Origin", e.Errors.BaseURL}, 200, "/records/"}, // some clients send both
	} {
		w := serve(h, newRequest(t, http.MethodPost, "/mcp", c.body, append(c.headers, "Content-Type", jsonType)...))
		require.Equal(t, c.status, w.Code, w.Body)
		require.Contains(t, w.Body.String(), c.text)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Empty(t, w.Header().Get("Www-Authenticate"), "it would make clients look for OAuth")
	}
}

func TestRejectedMessagesOfAgents(t *testing.T) {
	for _, c := range []struct {
		body, name, value string // of a header
		status            int
		text              string
	}{
		{body: "[" + search + "," + search + "]", status: 400, text: "batches are not supported"},
		{search, "Origin", "https://evil.example", 403, "send no Origin"},
		{search, "Origin", "null", 403, "send no Origin"},
		{body: `{"x":"` + strings.Repeat("x", 900<<10) + `"}`, status: 400, text: "at most 64 KiB"},
		{body: "hello", status: 400, text: "JSON object"},
		{body: `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, status: 400, text: `"id":null,`},
		{body: `{"method":"tools/list","id":1}`, status: 400},
		{search, "Content-Type", "text/plain", 415, "application/json"},
		{search, "Mcp-Protocol-Version", "1999-01-01", 400, "protocol version"},
	} {
		w := newEdge(t).send(t, http.MethodPost, "/mcp", c.body, "Content-Type", jsonType, c.name, c.value)
		require.Equal(t, c.status, w.Code, w.Body)
		require.Contains(t, w.Body.String(), c.text)
		require.Contains(t, w.Body.String(), `"jsonrpc":"2.0"`)
		require.Contains(t, w.Body.String(), `"error":{"code":-32600,`)
		require.Equal(t, jsonType, w.Header().Get("Content-Type"))
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} { // of sessions
		w := newEdge(t).send(t, method, "/mcp", "")
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, http.MethodPost, w.Header().Get("Allow"))
		require.Contains(t, w.Body.String(), "only POST")
	}
}
