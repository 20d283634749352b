package authquota_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota"
)

func (s *service) tally(id string, tallies ...api.UsageCount) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/internal/v1/tallies", api.UsageBatch{ID: id, Counts: tallies})
}

func batchID() string { return uuid.Must(uuid.NewV7()).String() }

// query reads from the service's database and returns one text per row.
func (s *stores) query(t *testing.T, statement string) []string {
	t.Helper()
	list := []string{}
	require.NoError(t, s.open(t).Raw(statement).Scan(&list).Error)
	return list
}

// exec changes the service's database.
func (s *stores) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	require.NoError(t, s.open(t).Exec(statement, args...).Error)
}

// counted returns the usage of keys, after comparing it with that of accounts.
func (s *stores) counted(t *testing.T) []string {
	t.Helper()
	require.Empty(t, s.query(t, `SELECT account_id || ' ' || day || ' ' || outcome FROM (
		SELECT account_id, day, outcome, calls FROM usage_keys UNION ALL SELECT account_id, day, outcome, -calls FROM usage_outcomes
	) AS both_tables GROUP BY account_id, day, outcome HAVING SUM(calls) <> 0`))
	return s.query(t, "SELECT day || ' ' || outcome || ' ' || CAST(calls AS text) FROM usage_keys ORDER BY key_id, day, outcome")
}

func TestUsageBatchIsAddedOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return now } })
		a, b := svc.issue(nil), svc.issue(nil)
		first := batchID()
		batch := []api.UsageCount{
			{Day: "2026-11-20", Key: a.ID, Outcome: api.CallServed, Calls: 3, LastAt: now.Add(-time.Second)},
			{Day: "2026-11-20", Key: b.ID, Outcome: api.CallMinuteLimitReached, Calls: 2, LastAt: now.Add(-2 * time.Second)},
		}
		for range 3 {
			sent := svc.tally(first, batch...)
			require.Equal(t, http.StatusNoContent, sent.status, "%s", sent.body)
			require.Equal(t, []string{"2026-11-20 served 3", "2026-11-20 minute_limit_reached 2"}, s.counted(t))
		}
		require.Equal(t, http.StatusNoContent, svc.tally(batchID(), batch[0], api.UsageCount{
			Day: "2026-11-19", Key: a.ID, Outcome: api.CallServed, Calls: 5, LastAt: now.Add(-11 * time.Hour)}).status)
		require.Equal(t, []string{"2026-11-19 served 5", "2026-11-20 served 6", "2026-11-20 minute_limit_reached 2"}, s.counted(t))
		lastUsed := func() []string {
			return s.query(t, "SELECT CAST(last_used_at AS text) FROM api_keys ORDER BY created_at, id")
		}
		require.Equal(t, []string{fmt.Sprint(now.Add(-time.Second).UnixMicro()), fmt.Sprint(now.Add(-2 * time.Second).UnixMicro())}, lastUsed())
		svc.tally(batchID(), api.UsageCount{Day: "2026-11-20", Key: b.ID, Outcome: api.CallServed, Calls: 1, LastAt: now.Add(time.Hour)},
			api.UsageCount{Day: "2026-11-20", Key: a.ID, Outcome: api.CallServed, Calls: 1, LastAt: now.Add(-time.Hour)})
		require.Equal(t, []string{fmt.Sprint(now.Add(-time.Second).UnixMicro()), fmt.Sprint(now.UnixMicro())}, lastUsed(),
			"neither back nor ahead of the time")
	})
}

func TestInvalidUsageBatchesAreRejected(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return now } })
		key := svc.issue(nil)
		good := api.UsageCount{Day: "2026-11-20", Key: key.ID, Outcome: api.CallServed, Calls: 1, LastAt: now}
		bad := good
		bad.Outcome = "lost"
		id := batchID()
		svc.tally(id, good, bad).rejected(problem.InvalidParameter, "tallies[1].outcome")
		svc.tally("1", good).rejected(problem.InvalidParameter, "id")
		svc.do(http.MethodPost, "/internal/v1/tallies", `{"id":"`+id+`","tallies":"x"}`).rejected(problem.InvalidParameter)
		svc.do(http.MethodPost, "/internal/v1/tallies", `{"id":"`+id+`","tallies":[{"Kay":1}]}`).rejected(problem.InvalidParameter)
		require.Equal(t, 401, svc.doAs(http.MethodPost, "/internal/v1/tallies", `{}`, http.Header{}).status)
		require.Empty(t, s.counted(t), "nothing of a batch that is refused")

		stranger := good
		stranger.Key = "key_0199a7a0000070008000000000000000"
		require.Equal(t, http.StatusNoContent, svc.tally(id, stranger, good).status, "a key that nobody has does not cost the others")
		require.Equal(t, []string{"2026-11-20 served 1"}, s.counted(t))
		require.Contains(t, svc.log.String(), "usage batch: unknown keys skipped")

		most := make([]api.UsageCount, api.MaxUsageCounts)
		for i := range most {
			most[i] = good
			most[i].Key = fmt.Sprintf("key_0199a7a0000070008000%012x", i)
			most[i].LastAt = now.Add(123456 * time.Microsecond)
		}
		most[0] = good
		require.Equal(t, http.StatusNoContent, svc.tally(batchID(), most...).status, "the largest batch fits")
		require.Equal(t, []string{"2026-11-20 served 2"}, s.counted(t))
	})
}

func TestUsageReportAddsUpAccountsByTheirTierNow(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, "2026-11-20T10:00:00Z")
		free, granted, paid := svc.issue(nil), svc.issue(map[string]any{"tier": "developer"}), svc.issue(map[string]any{"tier": "developer"})
		until := clock.Now().Add(time.Hour)
		svc.entitled(paid.Account, api.Entitlement{Tier: api.Commercial, PaidUntil: &until, Version: 1})
		svc.entitled(granted.Account, api.Entitlement{Tier: api.Free, Version: 1})
		svc.calls(free.ID, "2026-11-20", api.CallServed, 5)
		svc.calls(free.ID, "2026-11-20", api.CallMinuteLimitReached, 2)
		svc.calls(free.ID, "2026-11-19", api.CallFailed, 3)
		svc.calls(free.ID, "2025-10-17", api.CallServed, 9) // the first of 400 days
		svc.calls(svc.issue(nil).ID, "2026-11-20", api.CallNotFound, 4)
		svc.calls(granted.ID, "2026-11-20", api.CallServed, 11)
		svc.calls(paid.ID, "2026-11-20", api.CallDailyLimitReached, 7)
		report := func(query string) string {
			got := svc.do(http.MethodGet, "/operator/v1/usage"+query, nil)
			require.Equal(t, http.StatusOK, got.status, "%s", got.body)
			return string(got.body)
		}
		const nineteenth = `{"date":"2026-11-19","tier":"free","calls":3,"refused":{},"failed":3}`
		const today = `{"date":"2026-11-20","tier":"free","calls":11,"refused":{"minute_limit_reached":2},"failed":0}`
		const developer, commercial = `{"date":"2026-11-20","tier":"developer","calls":11,"refused":{},"failed":0}`,
			`{"date":"2026-11-20","tier":"commercial","calls":7,"refused":{"daily_limit_reached":7},"failed":0}`
		require.JSONEq(t, `{"days":[`+nineteenth+","+today+","+developer+","+commercial+`]}`, report(""))
		require.JSONEq(t, `{"days":[`+today+","+developer+","+commercial+`]}`, report("?days=1"))
		require.Contains(t, report("?days=400"), `{"date":"2025-10-17","tier":"free","calls":9,`)
		require.NotContains(t, report("?days=399"), "2025")

		clock.set(t, "2026-11-20T11:00:00Z") // the end of the paid period
		require.JSONEq(t, `{"days":[`+today+`,{"date":"2026-11-20","tier":"developer","calls":18,"refused":{"daily_limit_reached":7},"failed":0}]}`,
			report("?days=1"))
		for _, days := range []string{"0", "401", "x", ""} {
			require.Equal(t, http.StatusBadRequest, svc.do(http.MethodGet, "/operator/v1/usage?days="+days, nil).status, days)
		}
	})
}
