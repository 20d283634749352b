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
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
)

// html returns a handler that responds with a page.
func html(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, body)
	}
}

const explorerForm = api.ExplorerPath + "/listOpportunities"

// explore submits a form of the explorer, for which authquota names the call c. It returns the
// response, and the result that authquota received.
func (w *environment) explore(gw replica, c api.ExplorerCall) (response, api.ExplorerResult) {
	w.t.Helper()
	w.authquota.set(func() {
		w.authquota.page = func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get(api.ExplorerHeader) != "" {
				html("result")(rw, r)
				return
			}
			text, err := json.Marshal(c)
			require.NoError(w.t, err)
			rw.Header().Set(api.ExplorerHeader, string(text))
			rw.WriteHeader(http.StatusNoContent)
		}
	})
	w.authquota.takePages()
	a := gw.do(w.t, request{method: http.MethodPost, path: explorerForm, body: strings.NewReader("country=CA"),
		header: http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "Cookie": {"__Host-session=1"}, "Origin": {publicURL},
			"Authorization": {"Bearer x"}, api.ExplorerHeader: {"forged"},
		}})
	pages, forms := w.authquota.takePages()
	require.Len(w.t, pages, 2)
	require.Equal(w.t, "country=CA", forms[0])
	require.Equal(w.t, "__Host-session=1", pages[1].Header.Get("Cookie"), "authquota checks the session again")
	require.Equal(w.t, publicURL, pages[1].Header.Get("Origin"))
	require.Equal(w.t, explorerForm, pages[1].URL.Path)
	var result api.ExplorerResult
	require.NoError(w.t, json.Unmarshal([]byte(forms[1]), &result))
	require.Equal(w.t, "country=CA", string(result.Form))
	return a, result
}

// principal returns a principal of the account with the current epoch.
func (w *environment) principal(account string, limits api.Limits) api.Principal {
	w.t.Helper()
	w.counters.HSetNX(w.t.Context(), counter.Epochs, account, 1)
	epoch, err := w.counters.HGet(w.t.Context(), counter.Epochs, account).Int64()
	require.NoError(w.t, err)
	return api.Principal{
		Key: "key_" + account, Account: account, Tier: api.Developer, Limits: limits, Epoch: epoch,
		ExpiresAt: time.Now().Add(time.Hour),
	}
}

// The call counts once for the key, and has the response that a program would get.
func TestExplorerMakesTheCall(t *testing.T) {
	w := newEnvironment(t)
	gw, end := w.startAndStop()
	w.catalog.respondWith(func(rw http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("Cookie"))
		require.Equal(t, "Bearer "+servicetest.Token(peer.Gateway), r.Header.Get("Authorization"))
		require.JSONEq(t, `{"tier":"developer","pageSize":0,"history":false}`, r.Header.Get(api.CallerHeader))
		require.Equal(t, `W/"x"`, r.Header.Get("If-None-Match"))
		respond(http.StatusOK, `{"path":"`+r.URL.RequestURI()+`"}`)(rw, r)
	})
	a, result := w.explore(gw, api.ExplorerCall{
		Principal: w.principal("acc_a", api.Limits{PerMinute: 5, PerDay: 7}), Target: "/api/jobs?country=CA",
		Header: http.Header{"If-None-Match": {`W/"x"`}},
	})
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "result", a.body)
	require.Empty(t, a.header.Get("X-RateLimit-Limit"), "the limits are those of the call")
	require.Empty(t, a.header.Get(api.ExplorerHeader))
	require.Equal(t, http.StatusOK, result.Status)
	require.JSONEq(t, `{"path":"/api/jobs?country=CA"}`, string(result.Body))
	require.Equal(t, len(result.Body), result.Size)
	require.True(t, result.Charged)
	require.Equal(t, "6", result.Value("X-RateLimit-Remaining"))
	require.Equal(t, `W/"1"`, result.Value("Etag"))
	require.Equal(t, a.header.Get(api.RequestIDHeader), result.Value(api.RequestIDHeader))
	metrics := w.metrics()
	require.Contains(t, metrics, `gateway_requests_total{outcome="served",route="/api/jobs",tier="developer"} 1`)
	require.Contains(t, metrics, `gateway_requests_total{outcome="served",route="/account",tier="none"} 1`)
	end()
	calls, all := w.charged("acc_a")
	require.Equal(t, []int{1, 1}, []int{calls, all})
	require.Equal(t, map[api.CallOutcome]int{api.CallServed: 1}, w.authquota.usageOf("key_acc_a"))
}

// truncated responds with the start of a body.
func truncated(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Length", "100000")
	_, _ = io.WriteString(rw, strings.Repeat(" ", 50000))
	panic(http.ErrAbortHandler)
}
