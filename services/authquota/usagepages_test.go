package authquota_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/dbtx"
	keystore "opportunity.internal/services/authquota/internal/keys/store"
	usagestore "opportunity.internal/services/authquota/internal/usage/store"
)

// set moves the clock to a time.
func (c *clock) set(t *testing.T, at string) {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, at)
	require.NoError(t, err)
	c.at.Store(parsed.UnixMicro())
}

func (s *stores) startAt(t *testing.T, at string) (*service, *clock) {
	t.Helper()
	c := new(clock)
	c.set(t, at)
	svc := s.start(t, func(cfg *authquota.Config) { cfg.Now = c.Now })
	svc.now = c.Now
	return svc, c
}

// calls reports requests of a key with one outcome.
func (s *service) calls(key, day string, outcome api.CallOutcome, n int) {
	s.t.Helper()
	at := s.now()
	sent := s.tally(batchID(), api.UsageCount{Day: day, Key: key, Outcome: outcome, Calls: n, LastAt: at})
	require.Equal(s.t, http.StatusNoContent, sent.status, "%s", sent.body)
}

func TestThePageOfUsage(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, "2026-11-20T10:00:00Z")
		b, stranger := svc.browser(), svc.issue(nil)
		b.signIn("ada@example.org")
		b.get("/account/usage").shows(http.StatusOK, "0 of 100 requests charged, 100 left", "At most 10 requests",
			"Resets on 21 November 2026, 00:00 UTC", "No requests in 90 days.", "No requests were sent in the last 30 days.")

		shop, blog := svc.issue(map[string]any{"account": b.account}), svc.issue(map[string]any{"account": b.account})
		s.exec(t, "UPDATE api_keys SET name = 'Shop' WHERE id = ?", shop.ID)
		s.exec(t, "UPDATE api_keys SET name = ? WHERE id = ?", `<script>alert(1)</script>"'&`, blog.ID)
		svc.calls(shop.ID, "2026-11-20", api.CallServed, 12)
		svc.calls(shop.ID, "2026-11-20", api.CallMinuteLimitReached, 2)
		svc.calls(blog.ID, "2026-11-18", api.CallNotFound, 1234)
		svc.calls(blog.ID, "2026-10-01", api.CallSubscriptionRequired, 40)
		svc.calls(blog.ID, "2026-08-23", api.CallServed, 5) // the first day of the chart
		svc.calls(blog.ID, "2026-08-22", api.CallServed, 7) // and the one before it
		svc.calls(stranger.ID, "2026-11-20", api.CallServed, 77777)
		s.charge(t, "2026-11-20", map[string]int{b.account: 13, stranger.Account: 77}) // one more than in the usage batches

		p := b.get("/account/usage").shows(http.StatusOK, "13 of 100 requests charged, 87 left", "1,248 requests sent in the last 30 days",
			"1,293 requests in 90 days: 17 served, 1,234 not found, 42 rejected.", "Served 17", "Not found 1,234", "Rejected 42", "Failed 0",
			"Minute limit", "The account has used its limit of requests in 60 seconds", "Shop", `<script>alert(1)</script>"'&`)
		require.NotContains(t, p.body, "<script>alert")
		require.NotContains(t, p.body, "77,777")
		require.NotContains(t, p.body, stranger.ID)
		require.Contains(t, p.body, `href="/docs/errors#minute_limit_reached"`)
		require.Contains(t, p.body, `aria-valuenow="13"`)
		require.NotContains(t, p.text(), "Not in the plan", "was longer ago")
		require.Equal(t, 90, strings.Count(p.body, `<th scope="row">2026-`), "one row for each day")
		require.NotContains(t, p.body, "style=", "the policy forbids it")

		b.get("/account/usage?days=1").shows(http.StatusOK, "14 requests sent today")
		b.get("/account/usage?days=7").shows(http.StatusOK, "1,248 requests sent in the last 7 days")
		b.get("/account/usage?days=90").shows(http.StatusOK, "1,293 requests sent in the last 90 days", "Not in the plan", "Get a plan with history on the plan page of your account", "Compare plans")
		b.get("/account/usage?days=400&days=x").shows(http.StatusOK, "1,248 requests sent in the last 30 days")

		parsed, ok := apikey.Parse(stranger.Key)
		require.True(t, ok)
		_, err := keystore.New(&dbtx.DB{DB: s.open(t), Now: svc.now}, usagestore.Move).Connect(t.Context(), b.account, parsed.Digests([][]byte{pepper}))
		require.NoError(t, err)
		b.get("/account/usage").shows(http.StatusOK, "79,025 requests sent in the last 30 days")
		svc.calls(stranger.ID, "2026-11-20", api.CallServed, 1)
		b.get("/account/usage").shows(http.StatusOK, "79,026 requests sent in the last 30 days")
		s.counted(t)
	})
}

// Each figure has one meaning: requests charged on the overview are the sum of those of the keys, and rejected requests are
// sent but not charged.
func TestSentAndChargedRequestsAreDistinguished(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, "2026-11-20T10:00:00Z")
		b := svc.browser()
		b.signIn("ada@example.org")
		key := svc.issue(map[string]any{"account": b.account})
		for outcome, n := range map[api.CallOutcome]int{
			api.CallServed: 2, api.CallNotFound: 1, api.CallMinuteLimitReached: 20, api.CallSubscriptionRequired: 2, api.CallFailed: 1,
		} {
			svc.calls(key.ID, "2026-11-20", outcome, n)
		}
		s.charge(t, "2026-11-20", map[string]int{b.account: 3})
		b.get("/account").shows(http.StatusOK, "3 of 100 requests charged, 97 left", "26 requests were sent today with all keys.")
		b.get("/account/usage").shows(http.StatusOK, "3 of 100 requests charged, 97 left", "26 requests were sent today with all keys.")
		b.get("/account/keys").shows(http.StatusOK, "Requests today", "26 sent, 3 charged")
		b.get("/account/keys/"+key.ID).shows(http.StatusOK, "26 sent, 3 charged to your daily quota")
	})
}

func TestBusiestKeysAreListedAndOthersSummed(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, "2026-11-20T10:00:00Z")
		b := svc.browser()
		b.signIn("ada@example.org")
		for i := range 23 {
			key := svc.issue(map[string]any{"account": b.account})
			s.exec(t, "UPDATE api_keys SET name = ? WHERE id = ?", fmt.Sprintf("Key %d.", i), key.ID)
			svc.calls(key.ID, "2026-11-20", api.CallServed, 10*(i+1))
			svc.calls(key.ID, "2026-11-19", api.CallFailed, 1)
			require.Equal(t, http.StatusOK, svc.revoke(key.ID).status) // only five may be active
		}
		p := b.get("/account/usage").shows(http.StatusOK, "2,783 requests sent in the last 30 days", "Key 22.", "Key 3.")
		require.NotContains(t, p.text(), "Key 2.")
		require.Regexp(t, `3 other keys 60 0 0 3 63`, p.text())
		require.Regexp(t, `Key 22\. oda_live_…\w{4} 230 0 0 1 231`, p.text())
	})
}

// During a Redis outage the pages show the ledger's figures and say so.
func TestUsageWithoutRedis(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, "2026-11-20T10:00:00Z")
		b := svc.browser()
		b.signIn("ada@example.org")
		older := svc.issue(nil).Account
		s.charge(t, "2026-11-20", map[string]int{counter.ServiceField: 9, b.account: 7, older: 2})
		svc.eventually(api.DayUsage{Day: "2026-11-20", Service: 9, Accounts: map[string]int{b.account: 7, older: 2}})
		s.Stop()
		b.get("/account").shows(http.StatusOK, "7 of 100 requests charged, 93 left")
		s.exec(t, "INSERT INTO usage_moves (day, from_account, to_account) VALUES ('2026-11-20', ?, ?)", older, b.account)
		for _, path := range []string{"/account", "/account/usage"} {
			b.get(path).shows(http.StatusOK, "9 of 100 requests charged, 91 left", "live counters are temporarily unavailable")
		}
		b.get("/account/plan").shows(http.StatusOK)
		require.Equal(t, http.StatusOK, b.get("/account/usage.csv").status)
		s.Start()
		s.charge(t, "2026-11-20", map[string]int{b.account: 11})
		p := b.get("/account/usage").shows(http.StatusOK, "11 of 100")
		require.NotContains(t, p.body, "temporarily unavailable")
	})
}

func TestUsageAsAFile(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, "2026-11-20T10:00:00Z")
		b, other := svc.browser(), svc.browser()
		b.signIn("ada@example.org")
		other.signIn("bob@example.org")
		empty := b.get("/account/usage.csv")
		require.Equal(t, "day,key,key name,outcome,calls\r\n", empty.body)

		evil, plain := svc.issue(map[string]any{"account": b.account}), svc.issue(map[string]any{"account": b.account})
		s.exec(t, "UPDATE api_keys SET name = ? WHERE id = ?", `=cmd|' /C calc'!A0, "x"`, evil.ID)
		svc.calls(plain.ID, "2026-11-19", api.CallServed, 3)
		svc.calls(evil.ID, "2026-11-20", api.CallServed, 1)
		svc.calls(evil.ID, "2026-11-20", api.CallFailed, 2)
		svc.calls(evil.ID, "2026-01-02", api.CallServed, 4)
		svc.calls(svc.issue(map[string]any{"account": other.account}).ID, "2026-11-20", api.CallServed, 5)

		p := b.get("/account/usage.csv")
		require.Equal(t, http.StatusOK, p.status)
		require.Equal(t, "text/csv; charset=utf-8; header=present", p.header.Get("Content-Type"))
		require.Equal(t, `attachment; filename="usage-2025-10-17-to-2026-11-20.csv"`, p.header.Get("Content-Disposition"))
		require.Equal(t, "no-store", p.header.Get("Cache-Control"))
		rows, err := csv.NewReader(strings.NewReader(p.body)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, [][]string{
			{"day", "key", "key name", "outcome", "calls"},
			{"2026-01-02", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "served", "4"},
			{"2026-11-19", plain.ID, "oda_live_…" + plain.Key[len(plain.Key)-4:], "served", "3"},
			{"2026-11-20", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "failed", "2"},
			{"2026-11-20", evil.ID, `'=cmd|' /C calc'!A0, "x"`, "served", "1"},
		}, rows)
		require.Equal(t, 4, strings.Count(b.get("/account/usage.csv?days=30").body, "\r\n"))
		require.Empty(t, b.send(http.MethodHead, "/account/usage.csv", nil, nil).body)
		svc.browser().get("/account/usage.csv").leads("/account/sign-in?next=%2Faccount%2Fusage.csv")
	})
}

func TestTheOverview(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, "2026-11-20T10:00:00Z")
		b := svc.browser()
		b.signIn("ada@example.org")
		s.exec(t, "INSERT INTO recovery_codes (account_id, hash, used_at) VALUES (?, 'a', NULL), (?, 'b', NULL), (?, 'c', 1)", b.account, b.account, b.account)
		p := b.get("/account").shows(http.StatusOK, "First steps", "Request a key", "0 of 5 in use", "You have 2 recovery codes left.", "ada@example.org",
			"https://api.example/api/v1/opportunities")
		require.Len(t, regexp.MustCompile(`<li class="done">`).FindAllString(p.body, -1), 1)

		for i, state := range []string{"asked", "approved", "approved", "declined"} {
			s.exec(t, `INSERT INTO key_requests (id, account_id, name, use_case, state, asked_at) VALUES (?, ?, 'n', 'u', ?, 1)`,
				fmt.Sprintf("req_%d", i), b.account, state)
		}
		b.get("/account").shows(http.StatusOK, "3 of 5 in use (pending key requests included)", "One key request is waiting for approval.", "2 keys are approved and ready to collect.")

		s.exec(t, "DELETE FROM key_requests") // requests also count as keys in use
		far := svc.issue(map[string]any{"account": b.account})
		svc.issue(map[string]any{"account": b.account, "expiresIn": "1m"})
		near := svc.issue(map[string]any{"account": b.account, "expiresIn": "960h"})
		clock.set(t, "2026-11-20T10:01:00Z") // one has ended
		p = b.get("/account").shows(http.StatusOK, "2 of 5 in use", "The next one expires on 30 December 2026")
		require.NotContains(t, p.text(), "Soon")
		svc.calls(near.ID, "2026-11-20", api.CallServed, 1)
		require.NotContains(t, b.get("/account").text(), "First steps")
		require.Equal(t, http.StatusOK, svc.revoke(near.ID).status)
		b.get("/account").shows(http.StatusOK, "1 of 5 in use", "expires on 20 November 2027")
		s.exec(t, "UPDATE api_keys SET expires_at = ? WHERE id = ?", clock.Now().Add(29*24*time.Hour).UnixMicro(), far.ID)
		b.get("/account").shows(http.StatusOK, "Soon", "Rotate it before then")
	})
}
