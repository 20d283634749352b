package edge

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
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
