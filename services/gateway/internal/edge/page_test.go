package edge

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
)

// Readers without a key see everything of records in the free set, and only status and dates of
// others.
func TestPermalinkOfARecord(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	event := apitest.Verified("free-one", at)
	event.ID = "0198f000-0000-7000-8000-000000000001"
	facts := *event.Facts
	facts.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: "eligible",
		SourceURLs: []string{"javascript:alert(1)"}}}
	e := newEdge(t)
	e.Records = peer.New("http://catalog.test", "token", roundTrip(func(r *http.Request) (*http.Response, error) {
		id := path.Base(r.URL.Path)
		switch id {
		case "private":
			return reply(404, strings.NewReader(`{"error":{"code":"not_found","message":"There is no such record."}}`)), nil
		case "cut":
			return reply(200, broken{}), nil
		}
		record, err := api.Encode(api.Opportunity{
			ID: id, Platform: api.Platform{Company: api.Company{Name: "<b>Name</b>"}, Summary: "secret summary"}, Facts: facts,
			Verification: api.Verification{Status: api.Verified, LastCheckedAt: &at, FreshUntil: &at},
			Sources:      []api.Source{{URL: "https://a.example/secret-source"}},
		})
		require.NoError(t, err)
		body, err := api.Encode(api.PublicRecord{Record: record, At: at, Free: id == "free-one",
			Events: []api.VerificationEvent{event}})
		return reply(200, strings.NewReader(string(body))), err
	}))
	e.History = behind(t, func(r *http.Request) (*http.Response, error) {
		return reply(200, strings.NewReader(fmt.Sprint(r.URL)), "Content-Type", "text/plain", "Cache-Control", "no-store"), nil
	})
	h := e.handler(t)
	get := func(path string) (body string, header http.Header) {
		w := serve(h, newRequest(t, http.MethodGet, path, ""))
		return w.Body.String(), w.Header()
	}
	free, header := get("/records/free-one")
	require.Equal(t, "public, max-age=5", header.Get("Cache-Control"))
	require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'")
	for _, text := range []string{"&lt;b&gt;Name&lt;/b&gt;", "secret summary", "secret-source", "Residents of CA", event.ID,
		"opportunity-data verify free-one", ", record reviewed 2026-11-20, retrieved 2026-11-20, "} {
		require.Contains(t, free, text)
	}
	require.NotContains(t, free, "javascript:")
	other, _ := get("/records/other")
	require.Contains(t, other, "Last reviewed</dt><dd>20 November 2026")
	for _, text := range []string{"secret", "Residents of", event.ID} { // with its id, anyone could read the event
		require.NotContains(t, other, text)
	}
	proof, header := get("/records/free-one/event?a=b")
	require.Equal(t, "public, max-age=5", header.Get("Cache-Control"))
	require.Equal(t, "http://service.test/.well-known/opportunity-history/log/proof/"+event.ID, proof)
	for path, code := range map[string]string{"/records/other/event": "not_found", "/records/private": "not_found",
		"/records/private/event": "not_found", "/records/cut": "service_unavailable"} {
		body, _ := get(path)
		require.Contains(t, body, code, path)
	}
}

// closer counts how often a body is closed.
type closer struct {
	io.ReadCloser
	closed *int
}

func (c closer) Close() error {
	*c.closed++
	return c.ReadCloser.Close()
}

func TestExplorerMakesTheCallThatAuthquotaNames(t *testing.T) {
	path := api.ExplorerPath + "/list"
	call := func(target string) string {
		c, err := json.Marshal(api.ExplorerCall{Principal: principal(), Target: target})
		require.NoError(t, err)
		return string(c)
	}
	var result api.ExplorerResult
	var used string // calls of the account today
	closed := 0
	explore := func(body io.Reader, header string) *httptest.ResponseRecorder {
		t.Helper()
		e := newEdge(t)
		counters := e.admits(t, principal, nil).Client()
		result = api.ExplorerResult{}
		e.Catalog = behind(t, func(*http.Request) (*http.Response, error) {
			return reply(200, body, "Content-Type", jsonType), nil
		})
		e.Account = behind(t, func(r *http.Request) (*http.Response, error) {
			if r.Header.Get(api.ExplorerHeader) == "" {
				form := reply(200, strings.NewReader("form"), "Content-Type", htmlType, api.ExplorerHeader, header)
				form.Body = closer{form.Body, &closed}
				return form, nil
			}
			require.NoError(t, json.NewDecoder(r.Body).Decode(&result))
			return reply(200, strings.NewReader("result"), "Content-Type", htmlType), nil
		})
		closed = 0
		w := e.send(t, http.MethodPost, path, "a=b")
		require.Equal(t, 1, closed, "the connection to authquota is free again")
		used = counters.HGet(t.Context(), counter.Day(counter.DayOf(time.Now())), "acc_a").Val()
		return w
	}
	require.Equal(t, "form", explore(nil, "").Body.String(), "a problem of the form")
	for _, invalid := range []string{"{", call("no path")} {
		require.Equal(t, http.StatusInternalServerError, explore(nil, invalid).Code, invalid)
	}

	require.Equal(t, "result", explore(strings.NewReader("{}"), call("/api/v1/opportunities")).Body.String())
	require.Equal(t, []any{"a=b", 200, "{}", 2, true, "1"},
		[]any{string(result.Form), result.Status, string(result.Body), result.Size, result.Charged, used})
	for _, other := range []string{"/docs", "/account"} {
		explore(strings.NewReader("{}"), call(other))
		require.Equal(t, []any{404, false}, []any{result.Status, result.Charged}, "only calls of the API")
	}
	explore(broken{}, call("/api/v1/opportunities"))
	require.Equal(t, []any{503, false}, []any{result.Status, result.Charged}, "a response that ends early")
	explore(strings.NewReader(strings.Repeat("a", api.MaxExplorerBody+10)), call("/api/v1/opportunities"))
	require.Equal(t, []int{api.MaxExplorerBody, api.MaxExplorerBody + 10}, []int{len(result.Body), result.Size})
}

// Forms of other pages, and pages that are read, make no call, whatever the service sends.
func TestOnlyExplorerFormsMakeCalls(t *testing.T) {
	for _, c := range []struct{ method, path string }{{http.MethodGet, api.ExplorerPath + "/list"},
		{http.MethodPost, "/account/plan"}} {
		e := newEdge(t)
		e.Account = replies(t, http.StatusOK, "page", "Content-Type", htmlType, api.ExplorerHeader, "{}")
		w := e.send(t, c.method, c.path, "")
		require.Equal(t, []any{http.StatusOK, "page"}, []any{w.Code, w.Body.String()}, c)
	}
}
