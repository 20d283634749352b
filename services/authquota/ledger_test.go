package authquota_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keyusage"
)

const ann = "acc_0199a7a0000070008000000000000001"

// charge sets the counters of a day as the gateways do.
func (s *stores) charge(t *testing.T, day string, counts map[string]int) {
	t.Helper()
	c := s.Client()
	for account, calls := range counts {
		require.NoError(t, c.HSet(context.Background(), counter.Day(day), account, calls).Err())
		require.NoError(t, c.SAdd(context.Background(), counter.Changed(day), account).Err())
	}
	require.NoError(t, c.Expire(context.Background(), counter.Day(day), counter.DayTTL).Err())
}

// eventuallyUsed waits until the ledger has the requests of an account on the first day.
func (s *service) eventuallyUsed(account string, want int) {
	s.t.Helper()
	ledger := keyusage.NewStore(s.open(s.t).DB)
	storetest.Eventually(s.t, "the ledger has the counters", func() bool {
		used, err := ledger.UsedOn(s.t.Context(), account, begin)
		require.NoError(s.t, err)
		return used == want
	})
}

func TestTheLastCallsAreCopiedAtShutdown(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		s.charge(t, today, map[string]int{ann: 1})
		svc.eventuallyUsed(ann, 1)
		s.charge(t, today, map[string]int{ann: 42})
		svc.stop()
		s.Flush()
		used, err := keyusage.NewStore(s.open(t).DB).UsedOn(t.Context(), ann, clock.Now())
		require.NoError(t, err)
		require.Equal(t, 42, used)
	})
}

// The ledger resumes automatically after an outage; meanwhile a metric shows its age.
func TestLedgerResumesAfterRedisOutage(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		s.Stop()
		storetest.Eventually(t, "the outage is logged",
			func() bool { return strings.Contains(svc.Log.String(), `"msg":"background loop failing"`) })
		s.Start()
		s.charge(t, today, map[string]int{ann: 4})
		svc.eventuallyUsed(ann, 4)
		storetest.Eventually(t, "its end is logged",
			func() bool { return strings.Contains(svc.Log.String(), `"msg":"background loop recovered"`) })
		require.Contains(t, svc.Metrics(), "authquota_ledger_lag_seconds")
	})
}

func (s *service) sendBatch(id string, counts ...api.UsageCount) servicetest.Response {
	s.t.Helper()
	return s.do(http.MethodPost, "/internal/v1/usage-batches", api.UsageBatch{ID: id, Counts: counts})
}

func batchID() string { return uuid.Must(uuid.NewV7()).String() }

// counted returns the usage of the person's keys, as their file has it.
func (b *browser) counted() []string {
	b.svc.t.Helper()
	lines := strings.Split(b.Get("/account/usage.csv").Body, "\r\n")
	return lines[1 : len(lines)-1]
}

func TestInvalidUsageBatchesAreRejected(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := begin
		svc, _ := s.startAt(t, now)
		b := svc.browser()
		b.signUp("ada@example.org")
		key := svc.issue(map[string]any{"account": b.Account})
		b.rename(key.ID, "Shop")
		good := api.UsageCount{Day: "2026-11-20", Key: key.ID, Outcome: api.CallServed, Calls: 1, LastAt: now}
		bad := good
		bad.Outcome = "lost"
		id := batchID()
		svc.sendBatch(id, good, bad).RequireError(problem.InvalidParameter, "counts[1].outcome")
		svc.sendBatch("1", good).RequireError(problem.InvalidParameter, "id")
		logged := api.LoggedRequest{
			ID: "00000000-0000-4000-8000-000000000001", Key: key.ID, At: now, Route: "/api/v1/opportunities", Status: 200,
		}
		misnamed := logged
		misnamed.Route = "/api/v1/a private name"
		svc.do(http.MethodPost, "/internal/v1/usage-batches",
			api.UsageBatch{ID: id, Counts: []api.UsageCount{good}, Requests: []api.LoggedRequest{logged, misnamed}}).
			RequireError(problem.InvalidParameter, "requests[1].route")
		svc.do(http.MethodPost, "/internal/v1/usage-batches", `{"id":"`+id+`","counts":"x"}`).
			RequireError(problem.InvalidParameter)
		svc.do(http.MethodPost, "/internal/v1/usage-batches", `{"id":"`+id+`","counts":[{"Kay":1}]}`).
			RequireError(problem.InvalidParameter)
		require.Equal(t, 401, svc.doAs(http.MethodPost, "/internal/v1/usage-batches", `{}`, http.Header{}).Status)
		require.Empty(t, b.counted(), "nothing of a batch that is rejected")
		require.NotContains(t, b.Get("/account/usage/requests").Body, logged.ID)

		stranger := good
		stranger.Key = "key_0199a7a0000070008000000000000000"
		require.Equal(t, http.StatusNoContent, svc.sendBatch(id, stranger, good).Status,
			"an unknown key does not cost the others")
		require.Equal(t, []string{"2026-11-20," + key.ID + ",Shop,served,1"}, b.counted())
		require.Contains(t, svc.Log.String(), "usage batch: unknown keys skipped")

		most := make([]api.UsageCount, api.MaxUsageCounts)
		for i := range most {
			most[i] = good
			most[i].Key = fmt.Sprintf("key_0199a7a0000070008000%012x", i)
			most[i].LastAt = now.Add(123456 * time.Microsecond)
		}
		most[0] = good
		requests := make([]api.LoggedRequest, api.MaxUsageRequests)
		for i := range requests {
			requests[i] = logged
			requests[i].ID = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
			requests[i].Params = strings.Repeat("remote=false&", 38) + "remote=true" // nearly api.MaxLoggedQuery
		}
		largest := api.UsageBatch{ID: batchID(), Counts: most, Requests: requests}
		require.Equal(t, http.StatusNoContent, svc.do(http.MethodPost, "/internal/v1/usage-batches", largest).Status,
			"the largest batch fits")
		require.Contains(t, b.Get("/account/usage/requests").Body, requests[0].ID)
		require.Equal(t, []string{"2026-11-20," + key.ID + ",Shop,served,2"}, b.counted())
	})
}

func TestUsageReportAddsUpAccountsByTheirTierNow(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		free, granted, paid := svc.issue(nil), svc.issue(map[string]any{"tier": "developer"}), svc.issue(map[string]any{
			"tier": "developer",
		})
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
			require.Equal(t, http.StatusOK, got.Status, "%s", got.Body)
			return string(got.Body)
		}
		const nineteenth = `{"date":"2026-11-19","tier":"free","calls":3,"refused":{},"failed":3}`
		const today = `{"date":"2026-11-20","tier":"free","calls":11,"refused":{"minute_limit_reached":2},"failed":0}`
		const developer, commercial = `{"date":"2026-11-20","tier":"developer","calls":11,"refused":{},"failed":0}`,
			`{"date":"2026-11-20","tier":"commercial","calls":7,"refused":{"daily_limit_reached":7},"failed":0}`
		require.JSONEq(t, `{"days":[`+nineteenth+","+today+","+developer+","+commercial+`]}`, report(""))
		require.JSONEq(t, `{"days":[`+today+","+developer+","+commercial+`]}`, report("?days=1"))
		require.Contains(t, report("?days=400"), `{"date":"2025-10-17","tier":"free","calls":9,`)
		require.NotContains(t, report("?days=399"), "2025")

		clock.Set(begin.Add(time.Hour)) // the end of the paid period
		require.JSONEq(t,
			`{"days":[`+today+`,{"date":"2026-11-20","tier":"developer","calls":18,"refused":{"daily_limit_reached":7},"failed":0}]}`,
			report("?days=1"))
		for _, days := range []string{"0", "401", "x", ""} {
			require.Equal(t, http.StatusBadRequest, svc.do(http.MethodGet, "/operator/v1/usage?days="+days, nil).Status, days)
		}
	})
}

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

// The requests of the last 60 seconds are those that the gateway has admitted by the clock of
// Redis.
func TestRequestsOfTheLastMinute(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.Get("/account/usage").Shows(http.StatusOK, "0 of 10 requests accepted in the last 60 seconds")
		now, err := s.Client().Time(t.Context()).Result()
		require.NoError(t, err)
		for _, ago := range []time.Duration{time.Hour, 2 * time.Minute, 10 * time.Second, 0} {
			require.NoError(t, s.Client().LPush(t.Context(), counter.Window(b.Account), now.Add(-ago).UnixMicro()).Err())
		}
		b.Get("/account/usage").Shows(http.StatusOK, "2 of 10 requests accepted in the last 60 seconds")
	})
}

// The service deletes what its stores have kept long enough.
func TestSignInDataIsDeletedAfterRetention(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.Post("/account/sign-in", "email", "nobody@example.org", "password", "a guess that is wrong").
			Shows(http.StatusUnprocessableEntity)
		emptied := func() bool {
			rows := s.open(t).Dump(t)
			return rows["sessions"] == "[]" && rows["links"] == "[]" && rows["attempts"] == "[]" && rows["devices"] == "[]"
		}
		require.False(t, emptied())
		svc.stop()
		s.start(t, on(servicetest.NewClock(clock.Now().Add(401*24*time.Hour))))
		storetest.Eventually(t, "deleted", emptied)
		require.NotEqual(t, "[]", s.open(t).Dump(t)["people"])
	})
}

// subjects returns the subjects of the mails to an address, oldest first.
func (s *stores) subjects(t *testing.T, to string) (all []string) {
	t.Helper()
	for _, m := range s.mails(t) {
		if m.to == to {
			all = append(all, m.subject)
		}
	}
	return all
}

func TestNoticeIsSentBeforeAKeyExpires(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := servicetest.NewClock(begin)
		svc := s.start(t, on(now))
		b := svc.browser()
		b.signUp("ada@example.org")
		key := svc.issue(map[string]any{"account": b.Account})
		svc.stop()
		now.Advance(335 * 24 * time.Hour)
		s.start(t, on(now))
		storetest.Eventually(t, "notified", func() bool { return len(s.mails(t)) == 1 && s.waiting(t) == 0 })
		require.Equal(t, []string{"Your key Unnamed key expires within 30 days"}, s.subjects(t, "ada@example.org"))
		require.Contains(t, s.mails(t)[0].plain, key.Key[len(key.Key)-4:])
		require.NotContains(t, s.mails(t)[0].plain, key.Key)
		require.Contains(t, s.mails(t)[0].plain, account.FormatTime(key.ExpiresAt))
	})
}
