package verbs_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusMakesOneCallOfEachKind breaks each call in turn; one listener stands for both. The key
// must be revoked in every case.
func TestStatusMakesOneCallOfEachKind(t *testing.T) {
	const key = `{"id":"key_1","key":"oda_live_x","account":"acc_1","tier":"developer","expiresAt":"2026-11-20T10:05:00Z"}`
	for name, c := range map[string]struct{ breaks, err string }{
		"all succeed":          {"", ""},
		"no earlier keys":      {"earlier", "looking for the account of earlier runs: "},
		"no key":               {"POST /operator/v1/keys", "issuing a key: "},
		"no list":              {"GET /api/v1/opportunities?limit=1", "list: GET "},
		"no record":            {"GET /api/v1/opportunities/a", "record: GET "},
		"no history":           {"GET /api/v1/opportunities/a/history", "history: GET "},
		"no account page":      {"GET /account/sign-in", "account page: GET "},
		"no revocation":        {"POST /operator/v1/keys/key_1/revoke", "revoking the key key_1, which expires in 5m0s: "},
		"revoked key admitted": {"revoked", "list with the revoked key: GET "},
	} {
		t.Run(name, func(t *testing.T) {
			revoked := false
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				request := r.Method + " " + r.RequestURI
				w.Header().Set("X-Request-Id", "request-1")
				code := "invalid_api_key"
				switch {
				case c.breaks == request && !revoked:
					w.WriteHeader(http.StatusInternalServerError)
					code = "internal_error"
				case strings.HasPrefix(request, "GET /api/") && r.Header.Get("Authorization") == "":
					w.WriteHeader(http.StatusUnauthorized)
					code = "missing_api_key"
				case strings.HasPrefix(request, "GET /api/") && revoked && c.breaks != "revoked":
					w.WriteHeader(http.StatusUnauthorized)
				case request == "GET /readyz":
					_, _ = io.WriteString(w, `{"status":"ready"}`)
					return
				case strings.HasPrefix(request, "GET /operator/v1/keys?") && c.breaks == "earlier":
					w.WriteHeader(http.StatusInternalServerError)
				case strings.HasPrefix(request, "GET /operator/v1/keys?"):
					_, _ = io.WriteString(w, `{"keys":[]}`)
					return
				case request == "POST /operator/v1/keys":
					body, _ := io.ReadAll(r.Body)
					require.Contains(t, string(body), `"expiresIn":"5m0s"`)
					_, _ = io.WriteString(w, key)
					return
				case request == "POST /operator/v1/keys/key_1/revoke":
					revoked = true
					return
				default:
					_, _ = io.WriteString(w, `{"data":[{"id":"a"}]}`)
					return
				}
				_, _ = io.WriteString(w,
					`{"error":{"code":"`+code+`","message":"No."},"documentation":"https://data.example.com/docs"}`)
			}))
			defer s.Close()
			_, _, err := verb(t, s.URL, "", "status", "--public-url", s.URL, "--calls")
			require.Equal(t, name != "no earlier keys" && name != "no key" && name != "no revocation", revoked)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
			if strings.Contains(c.err, "GET ") {
				require.ErrorContains(t, err, "request id request-1")
			}
			require.NotContains(t, err.Error(), "oda_live_x")
		})
	}
	_, _, err := verb(t, nowhere, "", "status", "--calls")
	require.ErrorContains(t, err, "missing --public-url")
}

// Accounts cannot be deleted, so the runs share one. It must not be that of a person with the same
// use case, whose quota it would use.
func TestStatusReusesTheAccountOfEarlierRuns(t *testing.T) {
	const keys = `{"keys":[{"account":"acc_tier","tier":"free"},{"account":"acc_person","tier":"developer"},` +
		`{"account":"acc_suspended","tier":"developer"},{"account":"acc_own","tier":"developer"},{"account":"acc_later","tier":"developer"}]}`
	var want struct{ Account, UseCase string }
	mux := http.NewServeMux()
	reply := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	}
	reply("GET /readyz", `{"status":"ready"}`)
	reply("GET /operator/v1/accounts/acc_person",
		`{"id":"acc_person","status":"active","person":{"email":"ann@example.com"}}`)
	reply("GET /operator/v1/accounts/acc_suspended", `{"id":"acc_suspended","status":"suspended"}`)
	reply("GET /operator/v1/accounts/acc_own", `{"id":"acc_own","status":"active"}`)
	mux.HandleFunc("GET /operator/v1/keys", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "opportunity status --calls", r.FormValue("useCase"))
		_, _ = io.WriteString(w, keys)
	})
	mux.HandleFunc("POST /operator/v1/keys", func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, json.NewDecoder(r.Body).Decode(&want))
		_, _ = io.WriteString(w, `{"id":"key_1"}`)
	})
	mux.HandleFunc("GET /api/v1/opportunities", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"code":"missing_api_key","message":"No."}}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	_, _, err := verb(t, s.URL, "", "status", "--public-url", s.URL, "--calls")
	require.ErrorContains(t, err, "list: GET ", "the key is issued before the first call")
	require.Equal(t, "acc_own", want.Account)
	require.Equal(t, "opportunity status --calls", want.UseCase)
}
