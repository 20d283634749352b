package accountpages_test

import (
	"encoding/csv"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestUsagePage(t *testing.T) {
	s, b := person(t)
	b.Get("/account/usage").Shows(http.StatusOK, "0 of 100 requests charged, 100 left",
		"0 of 10 requests accepted in the last 60 seconds",
		"Resets on 21 November 2026, 00:00 UTC", "No requests in 14 days.", "No requests were sent in the last 30 days.")
	shop, blog, stranger := s.Issue(b.Account), s.Issue(b.Account), s.Issue("")
	b.Post("/account/keys/"+shop.ID+"/name", "name", "Shop")
	b.Post("/account/keys/"+blog.ID+"/name", "name", `<script>alert(1)</script>"'&`)
	s.Count(shop.ID, "2026-11-20", api.CallServed, 12)
	s.Count(shop.ID, "2026-11-20", api.CallMinuteLimitReached, 2)
	s.Count(blog.ID, "2026-11-18", api.CallNotFound, 1234)
	s.Count(blog.ID, "2026-10-01", api.CallSubscriptionRequired, 40)
	s.Count(blog.ID, "2026-08-23", api.CallServed, 5) // the first day of the chart
	s.Count(blog.ID, "2026-08-22", api.CallServed, 7) // and the one before it
	s.Count(stranger.ID, "2026-11-20", api.CallServed, 77777)
	s.Charge(b.Account, 13) // one more than in the usage batches

	p := b.Get("/account/usage").Shows(http.StatusOK, "13 of 100 requests charged, 87 left", "14 requests were sent today",
		"1,248 requests sent in the last 30 days", "1,293 requests in 90 days: 17 served, 1,234 not found, 42 rejected.",
		"Served 17",
		"Not found 1,234", "Rejected 42", "Failed 0", "Minute limit",
		"The account has used its limit of requests in 60 seconds", "Shop", `<script>alert(1)</script>"'&`).
		Markup(`href="/docs/errors#minute_limit_reached"`, `aria-valuenow="13"`).Lacks("<script>alert", "77,777", stranger.ID)
	require.NotContains(t, p.Text(), "Not in the plan", "was longer ago")
	require.Equal(t, 90, strings.Count(p.Body, `<th scope="row">2026-`), "one row for each day")
	require.Less(t, strings.Index(p.Body, `<th scope="row">2026-11-20`),
		strings.Index(p.Body, `<th scope="row">2026-11-18`), "newest first")
	require.NotContains(t, p.Body, "style=", "the policy forbids it")

	b.Get("/account").Shows(http.StatusOK, "13 of 100 requests charged, 87 left", "14 requests were sent today with all keys.")
	b.Get("/account/usage?days=1").Shows(http.StatusOK, "14 requests sent today")
	b.Get("/account/usage?days=7").Shows(http.StatusOK, "1,248 requests sent in the last 7 days")
	b.Get("/account/usage?days=90").Shows(http.StatusOK, "1,293 requests sent in the last 90 days", "Not in the plan",
		"Get a plan that does on the plan page of your account", "Compare plans")
	b.Get("/account/usage?days=400&days=x").Shows(http.StatusOK, "1,248 requests sent in the last 30 days")

	b.Post("/account/keys/connect", "key", stranger.Key).Leads("/account/keys")
	b.Get("/account/usage").Shows(http.StatusOK, "79,025 requests sent in the last 30 days")
}

func TestBusiestKeysAreListedAndOthersSummed(t *testing.T) {
	s, b := person(t)
	for i := range 23 {
		key := ended(t, s, b, fmt.Sprintf("Key %d.", i))
		s.Count(key, "2026-11-20", api.CallServed, 10*(i+1))
		s.Count(key, "2026-11-19", api.CallFailed, 1)
	}
	p := b.Get("/account/usage").Shows(http.StatusOK, "2,783 requests sent in the last 30 days", "Key 22.", "Key 3.").
		Lacks("Key 2.")
	require.Regexp(t, `3 other keys 60 0 0 3 63`, p.Text())
	require.Regexp(t, `Key 22\. oda_live_…\w{4} 230 0 0 1 231`, p.Text())
}

func TestTodayEndsAtMidnightUTC(t *testing.T) {
	s, b := person(t)
	s.Clock.Set(time.Date(2026, 11, 20, 23, 59, 59, 0, time.UTC))
	b.SignIn()
	s.Charge(b.Account, 100)
	s.Count(s.Issue(b.Account).ID, "2026-11-20", api.CallServed, 100)
	b.Get("/account/usage?days=1").
		Shows(http.StatusOK, "100 of 100 requests charged. Quota used up", "Resets on 21 November 2026, 00:00 UTC",
			"100 requests sent today")
	s.Advance(time.Second)
	s.Charge(b.Account, 0)
	b.Get("/account/usage?days=1").
		Shows(http.StatusOK, "0 of 100 requests charged, 100 left", "Resets on 22 November 2026, 00:00 UTC",
			"No requests were sent today.", "100 requests in 14 days")
}

// During a Redis outage the page shows the ledger's figures and says so.
func TestUsageDuringCounterOutage(t *testing.T) {
	s, b := person(t)
	require.NoError(t, s.Usage.SaveDay(t.Context(), "2026-11-20", map[string]int{b.Account: 9}))
	s.Redis.Stop()
	for _, page := range []string{"/account", "/account/usage"} {
		b.Get(page).Shows(http.StatusOK, "9 of 100 requests charged, 91 left", "live counters are temporarily unavailable")
	}
	b.Get("/account/usage").Shows(http.StatusOK, "At most 10 requests are accepted in any 60 seconds")
	s.Start()
	storetest.Eventually(t, "live counters again", func() bool {
		return !strings.Contains(b.Get("/account/usage").Text(), "temporarily unavailable")
	})
}

func TestUsageFile(t *testing.T) {
	s, b := person(t)
	require.Equal(t, "day,key,key name,outcome,requests\r\n", b.Get("/account/usage.csv").Body)
	evil, plain := s.Issue(b.Account), s.Issue(b.Account)
	b.Post("/account/keys/"+evil.ID+"/name", "name", `=cmd|' /C calc'!A0, "x"`)
	s.Count(plain.ID, "2026-11-19", api.CallServed, 3)
	s.Count(evil.ID, "2026-11-20", api.CallServed, 1)
	s.Count(evil.ID, "2026-11-20", api.CallFailed, 2)
	s.Count(evil.ID, "2026-01-02", api.CallServed, 4)
	s.Count(s.Issue("").ID, "2026-11-20", api.CallServed, 5)

	p := b.Get("/account/usage.csv")
	require.Equal(t, http.StatusOK, p.Status)
	require.Equal(t, "text/csv; charset=utf-8; header=present", p.Header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="usage-2025-10-17-to-2026-11-20.csv"`, p.Header.Get("Content-Disposition"))
	require.Equal(t, "no-store", p.Header.Get("Cache-Control"))
	rows := storetest.Must(csv.NewReader(strings.NewReader(p.Body)).ReadAll())(t)
	require.Equal(t, [][]string{
		{"day", "key", "key name", "outcome", "requests"},
		{"2026-01-02", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "served", "4"},
		{"2026-11-19", plain.ID, "oda_live_…" + plain.Key[len(plain.Key)-4:], "served", "3"},
		{"2026-11-20", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "failed", "2"},
		{"2026-11-20", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "served", "1"},
	}, rows)
	require.Equal(t, 4, strings.Count(b.Get("/account/usage.csv?days=30").Body, "\r\n"))
	require.Empty(t, b.Send(http.MethodHead, "/account/usage.csv", nil, nil).Body)
	s.Visitor().Get("/account/usage.csv").Leads("/account/sign-in?next=%2Faccount%2Fusage.csv")
}

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
			ID: requestID(i), Key: keys[i%2], At: s.Now(), Route: "/api/v1/opportunities", Params: "country=CA&remote=true",
			Status: 200, Duration: 1234567,
		}
		if i%10 == 0 {
			r.Status, r.Code = 400, "invalid_parameter"
		}
		sent = append(sent, r)
	}
	require.NoError(t, s.Usage.AddRequests(t.Context(), sent))
	return b, keys
}

func TestLoggedRequestsAreListed(t *testing.T) {
	b, _ := logged(t, 0)
	b.Get(latestRequests).Shows(http.StatusOK, "No requests were sent in the last 7 days").Lacks("<form method=\"get\"")
	b, _ = logged(t, 3)
	b.Get(latestRequests).
		Shows(http.StatusOK, "3 requests, newest first", "20 November 2026", "10:00:00",
			"/api/v1/opportunities?country=CA&remote=true",
			"Key <1> oda_live_…", "400 invalid_parameter", "1.2ms", requestID(2)).
		Markup(`href="/docs/errors#invalid_parameter"`).Lacks("Older requests")
}

func TestFilterAndLookUp(t *testing.T) {
	b, keys := logged(t, 30)
	b.Get(latestRequests+"?key="+keys[1]).Shows(http.StatusOK, "15 requests")
	b.Get(latestRequests+"?result=rejected").Shows(http.StatusOK, "3 requests").
		Markup(`<option value="rejected" selected>`)
	b.Get(latestRequests+"?result=rejected&key="+keys[1]).
		Shows(http.StatusOK, "No request in the log has this key and result")
	b.Get(latestRequests+"?result=other").Shows(http.StatusOK, "30 requests")
	b.Get(latestRequests+"?id=+"+strings.ToUpper(requestID(7))+"+").
		Shows(http.StatusOK, "1 request, newest first", requestID(7))
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

func TestFirstSteps(t *testing.T) {
	s, b := person(t)
	p := b.Get("/account").Shows(http.StatusOK, "First steps", "Request a key", "0 of 5 in use", "ada@example.org",
		"https://api.example/api/v1/opportunities").Lacks("You have 10")
	require.Equal(t, 1, strings.Count(p.Body, `<li class="done">`))
	require.Contains(t, p.Body, `<a class="button small" href="/account/keys/new">Request a key`)
	require.Equal(t, 1, strings.Count(p.Body, "button small"), "the next step")
	key := s.Issue(b.Account)
	require.Contains(t, b.Get("/account").Body,
		`<a class="button small" href="/account/explorer">Send the first request</a>`)
	s.Charge(b.Account, 1)
	require.NotContains(t, b.Get("/account").Text(), "First steps")
	s.Charge(b.Account, 0)
	s.Count(key.ID, "2026-11-20", api.CallServed, 1)
	require.NotContains(t, b.Get("/account").Text(), "First steps")
}

func TestKeysInUse(t *testing.T) {
	s, b := person(t)
	var requests []string
	for _, name := range []string{"First", "Second", "Third", "Fourth"} {
		requests = append(requests, b.RequestKey(name, "1"))
	}
	s.Decide(requests[0], "approve", "")
	s.Decide(requests[1], "approve", "")
	s.Decide(requests[2], "decline", `{"reason":"x"}`)
	b.Get("/account").Shows(http.StatusOK, "3 of 5 in use (pending key requests included)",
		"One key request is waiting for approval.",
		"2 keys are approved and ready to collect.")
	for _, r := range []string{requests[0], requests[1], requests[3]} {
		b.Post("/account/keys/requests/" + r + "/withdraw").Leads("/account/keys")
	}
	s.Issue(b.Account)
	b.Get("/account").Shows(http.StatusOK, "1 of 5 in use", "expires on 20 November 2027")
	s.Issue(b.Account, "expiresIn", "744h")
	require.NotContains(t, b.Get("/account").
		Shows(http.StatusOK, "The next one expires on 21 December 2026").Text(), "Soon")
	s.Issue(b.Account, "expiresIn", "720h")
	b.Get("/account").Shows(http.StatusOK, "Soon", "Rotate it before then")
}

func TestFewRecoveryCodesAreReported(t *testing.T) {
	s, b := person(t)
	for i := range 7 {
		s.Advance(time.Minute)
		b.Post("/account/sign-out")
		b.EnterPassword()
		b.Post("/account/sign-in/code", "code", b.Codes[i]).Leads("/account")
	}
	b.Get("/account").Shows(http.StatusOK, "You have 3 recovery codes left.")
}

func TestChoosingNotices(t *testing.T) {
	s, b := person(t)
	before := storetest.Must(s.Notices.Choices(t.Context(), b.Account))(t)
	p := b.Get("/account/notices").
		Shows(http.StatusOK, "ada@example.org", "80 % of the day's requests are used", "A payment for your plan failed")
	for _, c := range notices.All {
		checked := `value="` + string(c.Kind) + `" checked`
		require.Equal(t, before[c.Kind], p.Has(checked), c.Kind)
	}
	b.Post("/account/notices", "notice", "day-80", "notice", "minute-limit", "notice", "unknown").Leads("/account/notices")
	chosen := storetest.Must(s.Notices.Choices(t.Context(), b.Account))(t)
	for _, c := range notices.All {
		require.Equal(t, c.Kind == notices.DayNearlyUsed || c.Kind == notices.MinuteLimit, chosen[c.Kind], c.Kind)
	}
	b.Get("/account/notices").Shows(http.StatusOK, "Your choice was saved.")
}
