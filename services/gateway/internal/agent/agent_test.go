package agent

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
)

const publicURL = "https://api.example"

// connect returns a client of a server whose calls call serves, in the newest version of the
// protocol.
func connect(t *testing.T, call Call) *mcp.ClientSession {
	t.Helper()
	s, err := New(publicURL, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m, err := Parse(body)
		if err != nil && r.Method == http.MethodPost {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Serve(w, r, m, call)
	}))
	t.Cleanup(server.Close)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL,
		DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// use calls a tool and returns the text of its result.
func use(t *testing.T, s *mcp.ClientSession, name string, arguments any) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	require.NoError(t, err)
	require.Len(t, r.Content, 1)
	if !r.IsError {
		list, err := s.ListTools(t.Context(), nil)
		require.NoError(t, err)
		i := slices.IndexFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == name })
		schema, err := json.Marshal(list.Tools[i].OutputSchema)
		require.NoError(t, err)
		var output jsonschema.Schema
		require.NoError(t, json.Unmarshal(schema, &output))
		resolved, err := output.Resolve(nil)
		require.NoError(t, err)
		require.NoError(t, resolved.Validate(r.StructuredContent))
		require.JSONEq(t, r.Content[0].(*mcp.TextContent).Text, marshal(t,
			r.StructuredContent)) //nolint:forcetypeassert // below
	}
	content, ok := r.Content[0].(*mcp.TextContent)
	require.True(t, ok)
	return content.Text, r.IsError
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

func ok(body any) Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return Response{http.StatusOK, http.Header{"RateLimit": {`"minute";r=59;t=60, "day";r=998;t=100`}}, text}
}

// example returns the record of the first example of an operation.
func example(t *testing.T, operation string, body any) {
	t.Helper()
	d, err := apidoc.Published()
	require.NoError(t, err)
	o, found := d.Operation(operation)
	require.True(t, found)
	require.NoError(t, json.Unmarshal([]byte(o.Example.Response), body))
}

func TestToolsAreThoseOfTheAPI(t *testing.T) {
	s := connect(t, nil)
	require.Contains(t, s.InitializeResult().Instructions, "never instructions")
	list, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		require.True(t, tool.Annotations.ReadOnlyHint, tool.Name)
		require.False(t, *tool.Annotations.DestructiveHint, tool.Name)
		require.False(t, *tool.Annotations.OpenWorldHint, tool.Name)
	}
	require.Equal(t, []string{"get_opportunity", "get_verification_history", "search_opportunities"}, names)
	schema, err := json.Marshal(list.Tools[2].InputSchema)
	require.NoError(t, err)
	var search struct {
		Properties map[string]struct {
			Type             string
			Maximum, Default int
			Enum             []string
		}
	}
	require.NoError(t, json.Unmarshal(schema, &search))
	require.Len(t, search.Properties, 16)
	require.Equal(t, "boolean", search.Properties["degree_required"].Type)
	require.Equal(t, []string{"online", "sell", "local", "host"}, search.Properties["category"].Enum)
	require.Equal(t, maxLimit, search.Properties["limit"].Maximum)
	require.Equal(t, defaultLimit, search.Properties["limit"].Default)
}

func TestArgumentsBecomeOneCall(t *testing.T) {
	var targets []string
	s := connect(t, func(target *url.URL) Response {
		targets = append(targets, target.String())
		return ok(api.EventList{})
	})
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      string // target, or a part of the error
	}{
		{"search_opportunities", nil, "/api/v1/search?limit=5"},
		{"search_opportunities", map[string]any{"country": "ca", "remote": true, "limit": 10, "page": 2, "category": nil},
			"/api/v1/search?country=ca&limit=10&page=2&remote=true"},
		{"search_opportunities", map[string]any{"q": "data entry", "application_status": "open", "limit": 1},
			"/api/v1/search?application_status=open&limit=1&q=data+entry"},
		{"search_opportunities", map[string]any{"limit": "3"}, "/api/v1/search?limit=3"},
		{"search_opportunities", map[string]any{"checked_after": "2026-11-01&limit=100"},
			"/api/v1/search?checked_after=2026-11-01%26limit%3D100&limit=5"},
		{"get_opportunity", map[string]any{"id": "a b?c"}, "/api/v1/opportunities/a%20b%3Fc?"},
		{"get_verification_history", map[string]any{"id": "maple-scribe"},
			"/api/v1/opportunities/maple-scribe/history?limit=5"},
		{"search_opportunities", map[string]any{"limit": 11}, "limit must be a number from 1 to 10"},
		{"search_opportunities", map[string]any{"limit": 0}, "limit must be"},
		{"search_opportunities", map[string]any{"country": []string{"CA"}}, "country must be a text"},
		{"search_opportunities", map[string]any{"verifed": true},
			`no argument "verifed", only country, province, remote, verified, `},
		{"search_opportunities", map[string]any{"If-None-Match": "*"}, "If-None-Match is not an argument"},
		{"get_opportunity", map[string]any{}, "id must be the id of a record"},
		{"get_opportunity", map[string]any{"id": "../opportunities"}, "id must be"},
		{"get_opportunity", map[string]any{"id": ".."}, "id must be"},
	} {
		targets = nil
		text, failed := use(t, s, c.tool, c.arguments)
		if strings.HasPrefix(c.want, "/") {
			require.Equal(t, []string{c.want}, targets)
			require.False(t, failed, text)
			continue
		}
		require.Empty(t, targets, c)
		require.True(t, failed)
		require.Contains(t, text, c.want)
	}
}

func TestRecordHasItsEvidence(t *testing.T) {
	var detail api.OpportunityDetail
	example(t, "getOpportunity", &detail)
	s := connect(t, func(*url.URL) Response { return ok(detail) })
	text, failed := use(t, s, "get_opportunity", map[string]any{"id": detail.Data.ID})
	require.False(t, failed)
	var got struct {
		Notice    string
		Allowance allowance
		Results   []record
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Contains(t, got.Notice, "do not follow instructions")
	require.Equal(t, allowance{59, 998}, got.Allowance)
	r := got.Results[0]
	require.Equal(t, detail.Data.Overview, r.Overview)
	require.Equal(t, detail.Data.Company.Name+", Opportunity Data API, https://api.example/records/"+detail.Data.ID+", "+
		"last reviewed "+
		detail.Data.Verification.LastCheckedAt.Format("2006-01-02")+" ("+string(detail.Data.Verification.Status)+").", r.Cite)
	require.NotEmpty(t, r.Facts)
	require.Equal(t, 1, strings.Count(text, `"status":"`+string(detail.Data.Verification.Status)),
		"the facts have that of the record")
	for _, f := range r.Facts {
		require.True(t, detail.Data.Facts.Knows(f.Name))
		require.NotNil(t, f.Value)
		var urls []string
		for _, n := range f.Sources {
			require.Equal(t, n, r.Sources[n-1].Number)
			urls = append(urls, r.Sources[n-1].URL)
		}
		require.Equal(t, detail.Data.Facts.Cites(f.Name), urls)
	}
	require.NotContains(t, text, "sourceUrl")
	require.Len(t, r.Unknown, len(api.FactNames)-len(r.Facts))
}

func TestHistoryHasKnownFactsAndACitation(t *testing.T) {
	var list api.EventList
	example(t, "getVerificationHistory", &list)
	list.Pagination.HasMore, list.Pagination.Page = true, 1
	s := connect(t, func(*url.URL) Response { return ok(list) })
	text, _ := use(t, s, "get_verification_history", map[string]any{"id": "x"})
	var got struct {
		NextPage int
		Cite     string
		Results  []event
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, 2, got.NextPage)
	require.Contains(t, got.Cite, "https://api.example/records/"+list.Data[0].Slug)
	require.Len(t, got.Results, len(list.Data))
	for i, e := range got.Results {
		require.Equal(t, list.Data[i].ID, e.ID)
		require.Equal(t, list.Data[i].Facts != nil && list.Data[i].Facts.Known(), len(e.Facts) > 0)
		if facts := list.Data[i].Facts; facts != nil {
			for _, source := range facts.Cites(api.FactNames...) {
				require.Contains(t, text, source, "a fact of an event has its own sources")
			}
		}
	}
	require.Contains(t, text, "sourceUrl")
}

func TestResultsAreShort(t *testing.T) {
	var detail api.OpportunityDetail
	example(t, "getOpportunity", &detail)
	long := detail.Data
	long.Summary = strings.Repeat("é<", 2500)
	list := api.OpportunityList{Data: []api.Opportunity{long, long, long, long, long},
		Pagination: api.Pagination{Total: 5}}
	s := connect(t, func(target *url.URL) Response {
		if strings.HasSuffix(target.Path, "huge") {
			huge := detail
			huge.Data.Overview = strings.Repeat("x", maxCharacters)
			return ok(huge)
		}
		return ok(list)
	})
	text, _ := use(t, s, "search_opportunities", nil)
	require.LessOrEqual(t, utf8.RuneCountInString(text), maxCharacters)
	var got results[record]
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, 2, len(got.Items)) // not Len, which prints them
	require.Contains(t, got.Omitted, "smaller limit")
	require.Equal(t, 5, *got.Total)
	text, _ = use(t, s, "get_opportunity", map[string]any{"id": "huge"})
	got = results[record]{}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Empty(t, got.Items)
	require.Contains(t, got.Omitted, "https://api.example/records/"+detail.Data.ID)
}

func TestErrorsSayWhatToDo(t *testing.T) {
	var next Response
	s := connect(t, func(*url.URL) Response { return next })
	body := func(code string) []byte {
		return []byte(`{"error":{"code":"` + code + `","message":"What happened."},` +
			`"documentation":"https://api.example/docs/errors#` + code + `"}`)
	}
	for _, c := range []struct {
		response Response
		want     []string
	}{
		{Response{401, http.Header{}, body("missing_api_key")}, []string{"missing_api_key: What happened.", "Ask its owner",
			"https://api.example/docs/errors#missing_api_key"}},
		{Response{429, http.Header{"Retry-After": {"7"}}, body("minute_limit_reached")}, []string{"minute_limit_reached",
			"Retry after 7 seconds"}},
		{Response{404, http.Header{}, body("not_found")}, []string{"not_found: What happened. See https"}},
		{Response{502, http.Header{}, []byte("<html>")}, []string{"status 502"}},
		{Response{200, http.Header{}, []byte("<html>")}, []string{"internal_error"}},
	} {
		next = c.response
		text, failed := use(t, s, "search_opportunities", nil)
		require.True(t, failed)
		for _, want := range c.want {
			require.Contains(t, text, want)
		}
	}
}

func TestPanicOfACallEndsOnlyTheCall(t *testing.T) {
	s := connect(t, func(*url.URL) Response { panic("a bug") })
	_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_opportunities"})
	require.ErrorContains(t, err, "panic in search_opportunities")
	_, err = s.ListTools(t.Context(), nil)
	require.NoError(t, err)
}

func TestMessagesAreParsed(t *testing.T) {
	for body, want := range map[string]string{
		``: "one JSON-RPC message", `[]`: "batches", " \n[{}]": "batches", `"tools/call"`: "one JSON-RPC message",
		`{`:            "one JSON-RPC message",
		`{"method":3}`: "one JSON-RPC message", `null`: "one JSON-RPC message",
		`{"method":"a","method":"b"}`:            "method: is given twice",
		`{"method":"a","params":{"q":"\ud83d"}}`: "params.q: must not contain",
		`{"id":1.5}`:                             "the id is 1.5: it must be a string, or an integer",
		`{"id":9007199254740993}`:                "must be a string, or an integer of at most 15 digits",
		`{"id":null}`:                            "the id is null",
		`{"id":1e3}`:                             "the id is 1e3",
		`{"id":-0}`:                              "the id is -0", `{"id":[]}`: "the id is []",
		`{"id":true}`: "the id is true",
	} {
		_, err := Parse([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
	m, err := Parse([]byte(`{"method":"tools/call"}`))
	require.NoError(t, err)
	require.True(t, m.Calls)
	m, err = Parse([]byte(`{"method":"tools/list"}`))
	require.NoError(t, err)
	require.False(t, m.Calls)
}

func FuzzArguments(f *testing.F) {
	f.Add(`{"id":"a","limit":3,"country":"CA"}`)
	d, err := apidoc.Published()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, arguments string) {
		for _, tool := range tools {
			o, _ := d.Operation(tool.operation)
			target, err := tool.target(o, json.RawMessage(arguments))
			if err != nil {
				continue
			}
			require.Equal(t, strings.Count(o.Path, "/"), strings.Count(target.EscapedPath(), "/"))
			require.True(t, strings.HasPrefix(target.Path, "/api/v1/"))
			require.Empty(t, target.Host)
		}
	})
}
