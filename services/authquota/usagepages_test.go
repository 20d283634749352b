package authquota_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
)

// rename names a key on its page.
func (b *browser) rename(id, name string) {
	b.svc.t.Helper()
	b.Post("/account/keys/"+id+"/name", "name", name).Leads("/account/keys/" + id)
}

// calls reports requests of a key with one outcome.
func (s *service) calls(key, day string, outcome api.CallOutcome, n int) {
	s.t.Helper()
	at := s.now()
	sent := s.sendBatch(batchID(), api.UsageCount{Day: day, Key: key, Outcome: outcome, Calls: n, LastAt: at})
	require.Equal(s.t, http.StatusNoContent, sent.Status, "%s", sent.Body)
}

func TestThePageOfUsage(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b, stranger := svc.browser(), svc.issue(nil)
		b.signUp("ada@example.org")
		b.Get("/account/usage").Shows(http.StatusOK, "0 of 100 requests charged, 100 left", "At most 10 requests",
			"Resets on 21 November 2026, 00:00 UTC", "No requests in 90 days.", "No requests were sent in the last 30 days.")

		shop, blog := svc.issue(map[string]any{"account": b.Account}), svc.issue(map[string]any{"account": b.Account})
		b.rename(shop.ID, "Shop")
		b.rename(blog.ID, `<script>alert(1)</script>"'&`)
		svc.calls(shop.ID, "2026-11-20", api.CallServed, 12)
		svc.calls(shop.ID, "2026-11-20", api.CallMinuteLimitReached, 2)
		svc.calls(blog.ID, "2026-11-18", api.CallNotFound, 1234)
		svc.calls(blog.ID, "2026-10-01", api.CallSubscriptionRequired, 40)
		svc.calls(blog.ID, "2026-08-23", api.CallServed, 5) // the first day of the chart
		svc.calls(blog.ID, "2026-08-22", api.CallServed, 7) // and the one before it
		svc.calls(stranger.ID, "2026-11-20", api.CallServed, 77777)
		s.charge(t, "2026-11-20", map[string]int{b.Account: 13, stranger.Account: 77}) // one more than in the usage batches

		p := b.Get("/account/usage").Shows(http.StatusOK, "13 of 100 requests charged, 87 left", "1,248 requests sent in the last 30 days",
			"1,293 requests in 90 days: 17 served, 1,234 not found, 42 rejected.", "Served 17", "Not found 1,234", "Rejected 42", "Failed 0",
			"Minute limit", "The account has used its limit of requests in 60 seconds", "Shop", `<script>alert(1)</script>"'&`)
		require.NotContains(t, p.Body, "<script>alert")
		require.NotContains(t, p.Body, "77,777")
		require.NotContains(t, p.Body, stranger.ID)
		require.Contains(t, p.Body, `href="/docs/errors#minute_limit_reached"`)
		require.Contains(t, p.Body, `aria-valuenow="13"`)
		require.NotContains(t, p.Text(), "Not in the plan", "was longer ago")
		require.Equal(t, 90, strings.Count(p.Body, `<th scope="row">2026-`), "one row for each day")
		require.NotContains(t, p.Body, "style=", "the policy forbids it")

		b.Get("/account/usage?days=1").Shows(http.StatusOK, "14 requests sent today")
		b.Get("/account/usage?days=7").Shows(http.StatusOK, "1,248 requests sent in the last 7 days")
		b.Get("/account/usage?days=90").Shows(http.StatusOK, "1,293 requests sent in the last 90 days", "Not in the plan", "Get a plan with history on the plan page of your account", "Compare plans")
		b.Get("/account/usage?days=400&days=x").Shows(http.StatusOK, "1,248 requests sent in the last 30 days")

		b.connect(stranger.Key).Leads("/account/keys")
		b.Get("/account/usage").Shows(http.StatusOK, "79,025 requests sent in the last 30 days")
		svc.calls(stranger.ID, "2026-11-20", api.CallServed, 1)
		b.Get("/account/usage").Shows(http.StatusOK, "79,026 requests sent in the last 30 days")
	})
}

// Each figure has one meaning: requests charged on the overview are the sum of those of the keys, and rejected requests are
// sent but not charged.
func TestSentAndChargedRequestsAreDistinguished(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		key := svc.issue(map[string]any{"account": b.Account})
		for outcome, n := range map[api.CallOutcome]int{
			api.CallServed: 2, api.CallNotFound: 1, api.CallMinuteLimitReached: 20, api.CallSubscriptionRequired: 2, api.CallFailed: 1,
		} {
			svc.calls(key.ID, "2026-11-20", outcome, n)
		}
		s.charge(t, "2026-11-20", map[string]int{b.Account: 3})
		b.Get("/account").Shows(http.StatusOK, "3 of 100 requests charged, 97 left", "26 requests were sent today with all keys.")
		b.Get("/account/usage").Shows(http.StatusOK, "3 of 100 requests charged, 97 left", "26 requests were sent today with all keys.")
		b.Get("/account/keys").Shows(http.StatusOK, "Requests today", "26 sent, 3 charged")
		b.Get("/account/keys/"+key.ID).Shows(http.StatusOK, "26 sent, 3 charged to your daily quota")
	})
}

func TestBusiestKeysAreListedAndOthersSummed(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		for i := range 23 {
			key := svc.issue(map[string]any{"account": b.Account})
			b.rename(key.ID, fmt.Sprintf("Key %d.", i))
			svc.calls(key.ID, "2026-11-20", api.CallServed, 10*(i+1))
			svc.calls(key.ID, "2026-11-19", api.CallFailed, 1)
			require.Equal(t, http.StatusOK, svc.revoke(key.ID).Status) // only five may be active
		}
		p := b.Get("/account/usage").Shows(http.StatusOK, "2,783 requests sent in the last 30 days", "Key 22.", "Key 3.")
		require.NotContains(t, p.Text(), "Key 2.")
		require.Regexp(t, `3 other keys 60 0 0 3 63`, p.Text())
		require.Regexp(t, `Key 22\. oda_live_…\w{4} 230 0 0 1 231`, p.Text())
	})
}

// During a Redis outage the pages show the ledger's figures and say so.
func TestUsageWithoutRedis(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		key := svc.issue(nil)
		older := key.Account
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 9, b.Account: 7, older: 2})
		svc.eventually(dayUsage{Day: "2026-11-20", Service: 9, Accounts: map[string]int{b.Account: 7, older: 2}})
		s.Stop()
		b.Get("/account").Shows(http.StatusOK, "7 of 100 requests charged, 93 left")
		b.connect(key.Key).Leads("/account/keys") // moves the usage of today
		for _, path := range []string{"/account", "/account/usage"} {
			b.Get(path).Shows(http.StatusOK, "9 of 100 requests charged, 91 left", "live counters are temporarily unavailable")
		}
		b.Get("/account/plan").Shows(http.StatusOK)
		require.Equal(t, http.StatusOK, b.Get("/account/usage.csv").Status)
		s.Start()
		s.charge(t, "2026-11-20", map[string]int{b.Account: 11})
		storetest.Eventually(t, "live counters again", func() bool {
			text := b.Get("/account/usage").Text()
			return strings.Contains(text, "11 of 100") && !strings.Contains(text, "temporarily unavailable")
		})
	})
}

func TestUsageAsAFile(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b, other := svc.browser(), svc.browser()
		b.signUp("ada@example.org")
		other.signUp("bob@example.org")
		empty := b.Get("/account/usage.csv")
		require.Equal(t, "day,key,key name,outcome,requests\r\n", empty.Body)

		evil, plain := svc.issue(map[string]any{"account": b.Account}), svc.issue(map[string]any{"account": b.Account})
		b.rename(evil.ID, `=cmd|' /C calc'!A0, "x"`)
		svc.calls(plain.ID, "2026-11-19", api.CallServed, 3)
		svc.calls(evil.ID, "2026-11-20", api.CallServed, 1)
		svc.calls(evil.ID, "2026-11-20", api.CallFailed, 2)
		svc.calls(evil.ID, "2026-01-02", api.CallServed, 4)
		svc.calls(svc.issue(map[string]any{"account": other.Account}).ID, "2026-11-20", api.CallServed, 5)

		p := b.Get("/account/usage.csv")
		require.Equal(t, http.StatusOK, p.Status)
		require.Equal(t, "text/csv; charset=utf-8; header=present", p.Header.Get("Content-Type"))
		require.Equal(t, `attachment; filename="usage-2025-10-17-to-2026-11-20.csv"`, p.Header.Get("Content-Disposition"))
		require.Equal(t, "no-store", p.Header.Get("Cache-Control"))
		rows, err := csv.NewReader(strings.NewReader(p.Body)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, [][]string{
			{"day", "key", "key name", "outcome", "requests"},
			{"2026-01-02", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "served", "4"},
			{"2026-11-19", plain.ID, "oda_live_…" + plain.Key[len(plain.Key)-4:], "served", "3"},
			{"2026-11-20", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "failed", "2"},
			{"2026-11-20", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "served", "1"},
		}, rows)
		require.Equal(t, 4, strings.Count(b.Get("/account/usage.csv?days=30").Body, "\r\n"))
		require.Empty(t, b.Send(http.MethodHead, "/account/usage.csv", nil, nil).Body)
		svc.browser().Get("/account/usage.csv").Leads("/account/sign-in?next=%2Faccount%2Fusage.csv")
	})
}

func TestTheOverview(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.Get("/account").Shows(http.StatusOK, "First steps", "Request a key", "0 of 5 in use", "ada@example.org", "https://api.example/api/v1/opportunities")

		var requests []string
		for _, name := range []string{"First", "Second", "Third", "Fourth"} {
			requests = append(requests, b.ask(name))
		}
		svc.decide(requests[0], "approve", nil)
		svc.decide(requests[1], "approve", nil)
		svc.decide(requests[2], "decline", `{"reason":"x"}`)
		b.Get("/account").Shows(http.StatusOK, "3 of 5 in use (pending key requests included)", "One key request is waiting for approval.", "2 keys are approved and ready to collect.")
		for _, r := range []string{requests[0], requests[1], requests[3]} {
			b.Post("/account/keys/requests/" + r + "/withdraw").Leads("/account/keys")
		}

		svc.issue(map[string]any{"account": b.Account})
		svc.issue(map[string]any{"account": b.Account, "expiresIn": "1m"})
		near := svc.issue(map[string]any{"account": b.Account, "expiresIn": "960h"})
		clock.Set(begin.Add(time.Minute)) // one has ended
		p := b.Get("/account").Shows(http.StatusOK, "2 of 5 in use", "The next one expires on 30 December 2026")
		require.NotContains(t, p.Text(), "Soon")
		svc.calls(near.ID, "2026-11-20", api.CallServed, 1)
		require.NotContains(t, b.Get("/account").Text(), "First steps")
		require.Equal(t, http.StatusOK, svc.revoke(near.ID).Status)
		b.Get("/account").Shows(http.StatusOK, "1 of 5 in use", "expires on 20 November 2027")
		svc.issue(map[string]any{"account": b.Account, "expiresIn": "696h"})
		b.Get("/account").Shows(http.StatusOK, "Soon", "Rotate it before then")
	})
}
