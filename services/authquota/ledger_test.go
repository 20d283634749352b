package authquota_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

const ann = "acc_0199a7a0000070008000000000000001"

// charge sets the counters of today as the gateways do.
func charge(t *testing.T, s *sitekit.Stores, counts map[string]int) {
	t.Helper()
	c, ctx := s.Client(), context.Background()
	for account, calls := range counts {
		require.NoError(t, c.HSet(ctx, counter.Day(today), account, calls).Err())
		require.NoError(t, c.SAdd(ctx, counter.Changed(today), account).Err())
	}
	require.NoError(t, c.Expire(ctx, counter.Day(today), counter.DayTTL).Err())
}

func TestLastCallsAreCopiedAtShutdown(t *testing.T) {
	s := onStores(t)
	svc, _ := startAt(t, s, begin)
	require.Contains(t, svc.Metrics(), "authquota_ledger_lag_seconds")
	charge(t, s, map[string]int{ann: 42})
	svc.Stop()
	s.Flush()
	require.Equal(t, 42, storetest.Must(keyusage.NewStore(s.Open(t).DB).UsedOn(t.Context(), ann, begin))(t))
}

func TestUsageReportAddsUpAccountsByTheirTierNow(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		svc, clock := startAt(t, s, begin)
		free, granted, paid := svc.Issue(""), svc.Issue("", "tier", "developer"), svc.Issue("", "tier", "developer")
		until := clock.Now().Add(time.Hour)
		svc.Entitle(paid.Account, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: 1})
		svc.Entitle(granted.Account, api.Entitlement{Tier: api.Free, Version: 1})
		svc.Count(free.ID, today, api.CallServed, 5)
		svc.Count(free.ID, today, api.CallMinuteLimitReached, 2)
		svc.Count(free.ID, "2026-11-19", api.CallFailed, 3)
		svc.Count(free.ID, "2025-10-17", api.CallServed, 9) // the first of 400 days
		svc.Count(svc.Issue("").ID, today, api.CallNotFound, 4)
		svc.Count(granted.ID, today, api.CallServed, 11)
		svc.Count(paid.ID, today, api.CallDailyLimitReached, 7)
		report := func(query string) string {
			got := svc.Do(http.MethodGet, "/operator/v1/usage"+query, nil)
			require.Equal(t, http.StatusOK, got.Status, "%s", got.Body)
			return got.Body
		}
		const yesterday = `{"date":"2026-11-19","tier":"free","calls":3,"refused":{},"failed":3}`
		const now = `{"date":"2026-11-20","tier":"free","calls":11,"refused":{"minute_limit_reached":2},"failed":0}`
		const developer, commercial = `{"date":"2026-11-20","tier":"developer","calls":11,"refused":{},"failed":0}`,
			`{"date":"2026-11-20","tier":"commercial","calls":7,"refused":{"daily_limit_reached":7},"failed":0}`
		require.JSONEq(t, `{"days":[`+yesterday+","+now+","+developer+","+commercial+`]}`, report(""))
		require.JSONEq(t, `{"days":[`+now+","+developer+","+commercial+`]}`, report("?days=1"))
		require.Contains(t, report("?days=400"), `{"date":"2025-10-17","tier":"free","calls":9,`)
		require.NotContains(t, report("?days=399"), "2025")

		clock.Set(until) // the end of the paid period
		require.JSONEq(t,
			`{"days":[`+now+`,{"date":"2026-11-20","tier":"developer","calls":18,"refused":{"daily_limit_reached":7},"failed":0}]}`,
			report("?days=1"))
	})
}

// What each loop does is tested beside its store.
func TestLoopsSendNoticesAndDeleteExpiredData(t *testing.T) {
	s := onStores(t)
	svc, now := startAt(t, s, begin)
	b := svc.SignUp("ada@example.org")
	key := svc.Issue(b.Account)
	svc.Stop()
	now.Advance(335 * 24 * time.Hour)
	svc = s.Serve(t, on(now))
	notice := s.Mail(t, b.Email, "key-expires", 1)
	require.Equal(t, "Your key Unnamed key expires within 30 days", notice.Subject)
	require.Contains(t, notice.Text, key.Key[len(key.Key)-4:])
	require.Contains(t, notice.Text, account.FormatTime(key.ExpiresAt))
	svc.Stop()

	rows := func() map[string]string { return s.Open(t).Dump(t) }
	require.NotEqual(t, "[]", rows()["devices"])
	s.Serve(t, on(servicetest.NewClock(begin.Add(401*24*time.Hour))))
	storetest.Eventually(t, "deleted", func() bool { return rows()["devices"] == "[]" && rows()["sessions"] == "[]" })
	require.NotEqual(t, "[]", rows()["people"])
}
