package operator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatus: one listener stands for both, as the paths are not the same.
func TestStatus(t *testing.T) {
	const noKey = `{"error":{"code":"missing_api_key","message":"No key."},"documentation":"https://data.example.com/docs"}`
	for name, c := range map[string]struct {
		status        int
		ready, public string
		out, err      string
	}{
		"ready":           {200, `{"status":"ready"}`, noKey, "ready\n", ""},
		"not ready":       {503, `{"status":"not ready","missing":["redis","catalog"]}`, noKey, "", "not ready: redis, catalog"},
		"another server":  {200, "<html>", noKey, "", "is not an admin listener: it returned status 200"},
		"another gateway": {200, `{"status":"ready"}`, "<html>", "ready\n", "is not a gateway: it returned status 401"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Empty(t, r.Header.Get("Authorization"))
				status, body := c.status, c.ready
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
			if c.ready != "<html>" {
				require.Equal(t, c.ready+"\n", out)
			}
		})
	}
	_, _, err := verb(t, nowhere, "", "status")
	require.Error(t, err)
}
