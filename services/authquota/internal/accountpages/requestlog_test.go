package accountpages_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/testkit"
)

const latestRequests = "/account/usage/requests"

func requestID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// logged returns a person with two keys who has sent n requests, every tenth of them rejected.
func logged(t *testing.T, n int) (b *testkit.Person, keys []string) {
	t.Helper()
	s, b := person(t)
	for i := range 2 {
		keys = append(keys, s.Issue(b.Account).ID)
		b.Post("/account/keys/"+keys[i]+"/name", "name", fmt.Sprintf("Key <%d>", i)).Leads("/account/keys/" + keys[i])
	}
	var sent []api.LoggedRequest
	for i := range n {
		r := api.LoggedRequest{
			ID: requestID(i), Key: keys[i%2], At: s.Now(), Route: "/api/v1/opportunities", Params: "country=CA&remote=true", Status: 200, Duration: 1234567,
		}
		if i%10 == 0 {
			r.Status, r.Code = 400, "invalid_parameter"
		}
		sent = append(sent, r)
	}
	require.NoError(t, s.RequestLog.Add(t.Context(), sent))
	return b, keys
}

func TestEmptyLog(t *testing.T) {
	_, b := person(t)
	p := b.Get(latestRequests).Shows(http.StatusOK, "No requests were sent in the last 7 days")
	require.NotContains(t, p.Body, "<form method=\"get\"")
}

func TestLoggedRequestsAreListed(t *testing.T) {
	b, _ := logged(t, 3)
	p := b.Get(latestRequests).Shows(http.StatusOK, "3 requests, newest first", "20 November 2026", "10:00:00", "/api/v1/opportunities?country=CA&remote=true",
		"Key <1> oda_live_…", "400 invalid_parameter", "1.2ms", requestID(2))
	require.Contains(t, p.Body, `href="/docs/errors#invalid_parameter"`)
	require.NotContains(t, p.Body, "Older requests")
}

func TestFilterAndLookUp(t *testing.T) {
	b, keys := logged(t, 30)
	b.Get(latestRequests+"?key="+keys[1]).Shows(http.StatusOK, "15 requests")
	p := b.Get(latestRequests+"?result=rejected").Shows(http.StatusOK, "3 requests")
	require.Contains(t, p.Body, `<option value="rejected" selected>`)
	b.Get(latestRequests+"?result=rejected&key="+keys[1]).Shows(http.StatusOK, "No request in the log has this key and result")
	b.Get(latestRequests+"?result=other").Shows(http.StatusOK, "30 requests")
	b.Get(latestRequests+"?id=+"+strings.ToUpper(requestID(7))+"+").Shows(http.StatusOK, "1 request, newest first", requestID(7))
	b.Get(latestRequests+"?id=%3Cb%3E").Shows(http.StatusOK, "No request with this ID is in the log")
}

var older = regexp.MustCompile(`<a href="([^"]+)">Older requests</a>`)

func TestPagesKeepTheFilter(t *testing.T) {
	b, keys := logged(t, 240)
	at, seen := latestRequests+"?key="+keys[1], 0
	for page := 1; ; page++ {
		p := b.Get(at).Shows(http.StatusOK, "120 requests")
		seen += strings.Count(p.Body, `<th scope="row">`)
		require.Equal(t, page > 1, p.Has(`<a href="/account/usage/requests?key=`+keys[1]+`">Newest requests</a>`))
		next := older.FindStringSubmatch(p.Body)
		if next == nil {
			break
		}
		at = html.UnescapeString(next[1])
	}
	require.Equal(t, 120, seen)
}
