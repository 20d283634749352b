package pages_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/requestlog"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/site/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m, "templates") }

type log []requestlog.Request

func (l *log) Recent(context.Context, string) ([]requestlog.Request, error) { return *l, nil }

const path = "/account/usage/requests"

func start(t *testing.T) (*sitetest.Site, *log) {
	t.Helper()
	fake := new(log)
	return sitetest.New(t, func(*sitetest.Site) []site.Feature { return []site.Feature{(&pages.Pages{RequestLog: fake}).Feature()} }), fake
}

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// fill adds n requests with two keys, every tenth of them rejected.
func (l *log) fill(n int, now time.Time) {
	for i := range n {
		r := requestlog.Request{LoggedRequest: api.LoggedRequest{
			ID: id(i), Key: fmt.Sprintf("key_%d", i%2), At: now, Route: "/api/v1/opportunities", Params: "country=CA&remote=true", Status: 200, Duration: 1234567,
		}, KeyName: fmt.Sprintf("Key <%d>", i%2), KeyShown: "oda_live_…abcd"}
		if i%10 == 0 {
			r.Status, r.Code = 400, "invalid_parameter"
		}
		*l = append(*l, r)
	}
}

func TestEmptyLog(t *testing.T) {
	s, _ := start(t)
	p := s.Get(path).Shows(http.StatusOK, "No requests were sent in the last 7 days")
	require.NotContains(t, p.Body, "<form method=\"get\"")
}

func TestLoggedRequestsAreListed(t *testing.T) {
	s, log := start(t)
	log.fill(3, s.Now)
	p := s.Get(path).Shows(http.StatusOK, "3 requests, newest first", "20 November 2026, 10:00:00 UTC", "/api/v1/opportunities?country=CA&remote=true",
		"Key <1> oda_live_…abcd", "400 invalid_parameter", "1.2ms", id(2))
	require.Contains(t, p.Body, `href="/docs/errors#invalid_parameter"`)
	require.NotContains(t, p.Body, "Older requests")
}

func TestFilterAndLookUp(t *testing.T) {
	s, log := start(t)
	log.fill(30, s.Now)
	s.Get(path+"?key=key_1").Shows(http.StatusOK, "15 requests")
	p := s.Get(path+"?result=rejected").Shows(http.StatusOK, "3 requests")
	require.Contains(t, p.Body, `<option value="rejected" selected>`)
	s.Get(path+"?result=rejected&key=key_1").Shows(http.StatusOK, "No request in the log has this key and result")
	s.Get(path+"?result=other").Shows(http.StatusOK, "30 requests")
	s.Get(path+"?id=+"+strings.ToUpper(id(7))+"+").Shows(http.StatusOK, "1 request, newest first", id(7))
	s.Get(path+"?id=%3Cb%3E").Shows(http.StatusOK, "No request with this ID is in the log")
}

var older = regexp.MustCompile(`<a href="([^"]+)">Older requests</a>`)

func TestPagesKeepTheFilter(t *testing.T) {
	s, log := start(t)
	log.fill(240, s.Now)
	at, seen := path+"?key=key_1", 0
	for page := 1; ; page++ {
		p := s.Get(at).Shows(http.StatusOK, "120 requests")
		seen += strings.Count(p.Body, `<th scope="row">`)
		require.Equal(t, page > 1, strings.Contains(p.Body, `<a href="/account/usage/requests?key=key_1">Newest requests</a>`))
		next := older.FindStringSubmatch(p.Body)
		if next == nil {
			break
		}
		at = html.UnescapeString(next[1])
	}
	require.Equal(t, 120, seen)
}
