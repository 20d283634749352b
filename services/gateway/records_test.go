package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

// Readers without a key see everything of records in the free set, and only status and dates of
// others.
func TestPermalinkOfARecord(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start()
	w.redis.Stop()
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	event := apitest.Verified("free-one", at)
	event.ID = "0198f000-0000-7000-8000-000000000001"
	facts := *event.Facts
	facts.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: "eligible",
		SourceURLs: []string{"javascript:alert(1)"}}}
	w.catalog.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		id := strings.TrimPrefix(r.URL.Path, "/internal/v1/public-records/")
		require.Empty(t, r.Header.Get(api.CallerHeader))
		if id != "free-one" && id != "other" {
			respond(404, `{"error":{"code":"not_found","message":"There is no public record with this id."}}`)(rw, r)
			return
		}
		record, err := api.Encode(api.Opportunity{
			ID: id, Platform: api.Platform{Company: api.Company{Name: "<b>Name</b>"}, Summary: "secret summary"}, Facts: facts,
			Verification: api.Verification{Status: api.Verified, LastCheckedAt: &at, FreshUntil: &at},
			Sources:      []api.Source{{URL: "https://a.example/secret-source"}},
		})
		require.NoError(t, err)
		rw.Header().Set("Content-Type", "application/json")
		require.NoError(t, json.NewEncoder(rw).Encode(api.PublicRecord{
			Record: record, At: at, Free: id == "free-one", Events: []api.VerificationEvent{event},
		}))
	})
	w.history.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/.well-known/opportunity-history/log/proof/"+event.ID, r.URL.RequestURI())
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(rw, "the proof\n")
	})
	free := gw.do(t, request{path: "/records/free-one"})
	require.Equal(t, 200, free.status)
	require.Equal(t, "public, max-age=5", free.header.Get("Cache-Control"))
	require.Contains(t, free.header.Get("Content-Security-Policy"), "default-src 'none'")
	for _, text := range []string{"&lt;b&gt;Name&lt;/b&gt;", "secret summary", "secret-source", "Residents of CA", event.ID,
		"opportunity-data verify free-one", ", record reviewed 2026-11-20, retrieved 2026-11-20, "} {
		require.Contains(t, free.body, text)
	}
	require.NotContains(t, free.body, "javascript:")
	other := gw.do(t, request{path: "/records/other"})
	require.Equal(t, 200, other.status)
	for _, text := range []string{"secret", "Residents of", event.ID} { // with its id, anyone could read the event
		require.NotContains(t, other.body, text)
	}
	proof := gw.do(t, request{path: "/records/free-one/event?a=b"})
	require.Equal(t, "public, max-age=5", proof.header.Get("Cache-Control"))
	require.Equal(t, "the proof\n", proof.body)
	for _, path := range []string{"/records/other/event", "/records/private", "/records/private/event"} {
		require.Equal(t, "not_found", gw.do(t, request{path: path}).code(t), path)
	}
	w.catalog.respondWith(truncated)
	require.Equal(t, "service_unavailable", gw.do(t, request{path: "/records/free-one"}).code(t))
}
