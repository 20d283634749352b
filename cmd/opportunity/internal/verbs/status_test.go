package verbs_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// gateway is both ports of a gateway. reply has the status and the body of a response by the method
// and the path with its query; the ones below are those of a working gateway.
func gateway(t *testing.T, reply func(request, body string, withKey bool) (status int, text string)) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, withKey := r.Method+" "+r.RequestURI, r.Header.Get("Authorization") != ""
		body, _ := io.ReadAll(r.Body)
		status, text := reply(request, string(body), withKey)
		switch {
		case status != 0:
		case request == "GET /readyz":
			status, text = http.StatusOK, `{"status":"ready"}`
		case strings.HasPrefix(request, "GET /api/") && !withKey:
			status, text = http.StatusUnauthorized, noKey
		case strings.HasPrefix(request, "GET /operator/v1/keys?"):
			status, text = http.StatusOK, `{"keys":[]}`
		default:
			status, text = http.StatusOK, `{"id":"key_1","key":"oda_live_x","data":[{"id":"a"}]}`
		}
		w.Header().Set("X-Request-Id", "request-1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text+"\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const noKey = `{"error":{"code":"missing_api_key","message":"No key."}}`

func TestStatus(t *testing.T) {
	const set = `{"records":0,"limit":10,"published":600,"neverReviewed":592,"needsReview":1,"stale":2,"notOpen":3,"beyondLimit":2}`
	const free = `free set: 0 of at most 10 records
published: 600, of them 592 never reviewed, 1 need review, 2 stale, 3 verified but not open, 2 beyond the limit
A free key gets an empty list: no published record is verified and open. See: opportunity reviews due
`
	for name, c := range map[string]struct {
		status        int
		ready, public string
		out, err      string
	}{
		"ready": {200, `{"status":"ready"}`, noKey, "ready\n" + free, ""},
		"links off": {200, `{"status":"ready","notes":["Link checks are off"]}`, noKey,
			"ready\n" + free + "Link checks are off\n", ""},
		"not ready":       {503, `{"status":"not ready","missing":["redis","catalog"]}`, noKey, "", "not ready: redis, catalog"},
		"another server":  {200, "<html>", noKey, "", "is not an admin listener: it returned status 200"},
		"another gateway": {200, `{"status":"ready"}`, "<html>", "ready\n" + free, "is not a gateway: it returned status 401"},
	} {
		url := gateway(t, func(request, _ string, withKey bool) (int, string) {
			require.Equal(t, strings.HasPrefix(request, "GET /operator/"), withKey)
			switch request {
			case "GET /readyz":
				return c.status, c.ready
			case "GET /operator/v1/catalog":
				return http.StatusOK, `{"freeSet":` + set + "}"
			}
			return http.StatusUnauthorized, c.public
		})
		out, _, err := verb(t, url, "", "status", "--public-url", url)
		require.Equal(t, c.out, out, name)
		require.Contains(t, fmt.Sprint(err), c.err, name)
		require.Equal(t, c.err == "", err == nil, name)
		out, _, _ = verb(t, url, "", "status", "--output", "json")
		switch {
		case c.status == http.StatusServiceUnavailable:
			require.Equal(t, c.ready+"\n", out)
		case c.ready != "<html>":
			require.JSONEq(t, strings.TrimSuffix(c.ready, "}")+`,"freeSet":`+set+"}", out)
		}
	}
	_, _, err := verb(t, nowhere, "", "status")
	require.Error(t, err)
}

func TestStatusWaitsAndNeedsNoToken(t *testing.T) {
	requests := 0
	url := gateway(t, func(request, _ string, _ bool) (int, string) {
		if requests++; requests == 1 {
			return http.StatusServiceUnavailable, `{"status":"not ready","missing":["documentation"]}`
		}
		if strings.HasPrefix(request, "GET /operator/") {
			return http.StatusUnauthorized, ""
		}
		return 0, ""
	})
	out, errs, err := verb(t, url, "", "status", "--wait", "1m")
	require.NoError(t, err)
	require.Equal(t, "ready\n", out)
	require.Contains(t, errs, "free set unknown: ")
}

func TestInterruptedStatusEndsAtOnce(t *testing.T) {
	before := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = before })
	http.DefaultTransport = notReady{}
	root, _, _ := newRoot(t, nowhere, nil, "status", "--wait", "1m")
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		begun := time.Now()
		time.AfterFunc(time.Millisecond, interrupt)
		require.ErrorContains(t, root.ExecuteContext(ctx), "interrupted")
		require.Equal(t, time.Millisecond, time.Since(begun), "simulated time")
	})
}

// notReady is the admin listener of a gateway that is not ready.
type notReady struct{}

func (notReady) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body := io.NopCloser(strings.NewReader(`{"status":"not ready"}`))
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: body}, nil
}

// TestStatusMakesOneCallOfEachKind breaks each call in turn. The key must be revoked in every case.
func TestStatusMakesOneCallOfEachKind(t *testing.T) {
	const revoke, list = "POST /operator/v1/keys/key_1/revoke", "GET /api/v1/opportunities?limit=1"
	for breaks, want := range map[string]string{
		"": "",
		"GET /operator/v1/keys?limit=100&useCase=opportunity+status+--calls": "looking for the account of earlier runs: ",
		"POST /operator/v1/keys": "issuing a key: ", revoke: "revoking the key key_1, which expires in 5m0s: ",
		list: "list: GET ", "GET /api/v1/opportunities/a": "record: GET ",
		"GET /api/v1/opportunities/a/history": "history: GET ", "GET /account/sign-in": "account page: GET ",
		"revoked": "list with the revoked key: GET ",
	} {
		issued, revoked := false, false
		url := gateway(t, func(request, body string, withKey bool) (int, string) {
			switch {
			case request == "POST /operator/v1/keys" && breaks != request:
				require.Contains(t, body, `"expiresIn":"5m0s"`)
				issued = true
			case request == revoke && breaks != request:
				revoked = true
			case request == list && withKey && revoked && breaks != "revoked":
				return http.StatusUnauthorized, `{"error":{"code":"invalid_api_key","message":"No."}}`
			case request == breaks && (withKey || request == "GET /account/sign-in"):
				return http.StatusInternalServerError, `{"error":{"code":"internal_error","message":"No."}}`
			}
			return 0, ""
		})
		_, _, err := verb(t, url, "", "status", "--public-url", url, "--calls")
		require.Equal(t, issued && breaks != revoke, revoked, breaks)
		require.Equal(t, want == "", err == nil, breaks)
		require.Contains(t, fmt.Sprint(err), want, breaks)
		require.NotContains(t, fmt.Sprint(err), "oda_live_x")
		if strings.Contains(want, "GET ") {
			require.ErrorContains(t, err, "request id request-1")
		}
	}
	_, _, err := verb(t, nowhere, "", "status", "--calls")
	require.ErrorContains(t, err, "missing --public-url")
}

// Accounts cannot be deleted, so the runs share one. It must not be that of a person with the same
// use case, whose quota it would use.
func TestStatusReusesTheAccountOfEarlierRuns(t *testing.T) {
	used := ""
	url := gateway(t, func(request, body string, _ bool) (int, string) {
		id := strings.TrimPrefix(request, "GET /operator/v1/accounts/")
		switch {
		case strings.HasPrefix(request, "GET /operator/v1/keys?"):
			return http.StatusOK, `{"keys":[{"account":"acc_tier","tier":"free"},{"account":"acc_person","tier":"developer"},` +
				`{"account":"acc_suspended","tier":"developer"},{"account":"acc_own","tier":"developer"},` +
				`{"account":"acc_later","tier":"developer"}]}`
		case id == "acc_person":
			return http.StatusOK, `{"id":"acc_person","status":"active","person":{"email":"ann@example.com"}}`
		case id == "acc_suspended":
			return http.StatusOK, `{"id":"acc_suspended","status":"suspended"}`
		case strings.HasPrefix(id, "acc_"):
			return http.StatusOK, `{"id":"` + id + `","status":"active"}`
		case request == "POST /operator/v1/keys":
			used = body
		}
		return 0, ""
	})
	_, _, _ = verb(t, url, "", "status", "--public-url", url, "--calls")
	require.Contains(t, used, `"useCase":"opportunity status --calls","account":"acc_own"`)
}
