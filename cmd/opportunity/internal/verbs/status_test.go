package verbs_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatus: one listener stands for both, as the paths are not the same.
func TestStatus(t *testing.T) {
	const noKey = `{"error":{"code":"missing_api_key","message":"No key."},"documentation":"https://data.example.com/docs"}`
	const free = `free set: 0 of at most 10 records
published: 600, of them 592 never reviewed, 1 need review, 2 stale, 3 verified but not open, 2 beyond the limit
A free key gets an empty list: no published record is verified and open. See: opportunity reviews due
`
	const set = `{"records":0,"limit":10,"published":600,"neverReviewed":592,"needsReview":1,"stale":2,"notOpen":3,"beyondLimit":2}`
	for name, c := range map[string]struct {
		status        int
		ready, public string
		out, err      string
	}{
		"ready": {200, `{"status":"ready"}`, noKey, "ready\n" + free, ""},
		"links off": {200, `{"status":"ready","notes":["Link checks are off"]}`, noKey, "ready\n" + free +
			"Link checks are off\n", ""},
		"not ready": {503, `{"status":"not ready","missing":["redis","catalog"]}`, noKey, "",
			"not ready: redis, catalog"},
		"another server": {200, "<html>", noKey, "", "is not an admin listener: it returned status 200"},
		"another gateway": {200, `{"status":"ready"}`, "<html>", "ready\n" + free,
			"is not a gateway: it returned status 401"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status, body := c.status, c.ready
				if r.URL.Path == "/operator/v1/catalog" {
					require.NotEmpty(t, r.Header.Get("Authorization"))
					_, _ = io.WriteString(w, `{"generatedAt":"2026-11-20T09:00:00Z","freeSet":`+set+"}")
					return
				}
				require.Empty(t, r.Header.Get("Authorization"))
				if r.URL.Path == "/api/v1/opportunities" {
					status, body = http.StatusUnauthorized, c.public
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body+"\n")
			}))
			defer s.Close()
			out, _, err := verb(t, s.URL, "", "status", "--public-url", s.URL)
			require.Equal(t, c.out, out)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
			out, _, _ = verb(t, s.URL, "", "status", "--output", "json")
			switch {
			case c.status == http.StatusServiceUnavailable:
				require.Equal(t, c.ready+"\n", out)
			case c.ready != "<html>":
				require.JSONEq(t, strings.TrimSuffix(c.ready, "}")+`,"freeSet":`+set+"}", out)
			}
		})
	}
	_, _, err := verb(t, nowhere, "", "status")
	require.Error(t, err)
}

func TestStatusWaitsForServices(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"status":"not ready","missing":["documentation"]}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ready"}`)
	}))
	defer s.Close()
	out, _, err := verb(t, s.URL, "", "status", "--wait", "1m")
	require.NoError(t, err)
	require.Contains(t, out, "ready\n")
}

func TestStatusNeedsNoToken(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"status":"ready"}`)
	}))
	defer s.Close()
	out, errs, err := verb(t, s.URL, "", "status")
	require.NoError(t, err)
	require.Equal(t, "ready\n", out)
	require.Contains(t, errs, "free set unknown: ")
}
