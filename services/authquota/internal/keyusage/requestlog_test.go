package keyusage_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/testkit"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// logged returns the n-th request of the log.
func logged(key string, n int, at time.Time) api.LoggedRequest {
	return api.LoggedRequest{
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Key: key, At: at, Route: "/api/v1/opportunities/{id}/history",
		Params: "country=CA", Status: 400, Code: "invalid_parameter", Duration: 1500 * time.Microsecond,
	}
}

func TestCheckRejectsForgedFields(t *testing.T) {
	for field, forge := range map[string]func(*api.LoggedRequest){
		"id":       func(r *api.LoggedRequest) { r.ID = "private text" },
		"key":      func(r *api.LoggedRequest) { r.Key = "oda_live_x" },
		"route":    func(r *api.LoggedRequest) { r.Route = "/api/v1/opportunities/a private name" },
		"status":   func(r *api.LoggedRequest) { r.Status = 0 },
		"duration": func(r *api.LoggedRequest) { r.Duration = -1 },
	} {
		r := logged(keyA, 1, now)
		forge(&r)
		_, err := keyusage.CheckRequests([]api.LoggedRequest{logged(keyA, 0, now), r}, now)
		require.ErrorContains(t, err, "requests[1]."+field)
	}
	_, err := keyusage.CheckRequests(make([]api.LoggedRequest, api.MaxUsageRequests+1), now)
	require.ErrorContains(t, err, "at most 1000")
}

func TestCheckLeavesOutWhatIsNotStored(t *testing.T) {
	ahead, old, odd := logged(keyA, 1, now), logged(keyA, 2, now), logged(keyA, 3, now)
	ahead.At, old.At = now.Add(time.Hour), now.Add(-api.RequestLogDuration)
	odd.Params, odd.Code = "q=private&remote=true", "code_of_another_release"
	got := storetest.Must(keyusage.CheckRequests([]api.LoggedRequest{ahead, old, odd}, now))(t)
	ahead.At, odd.Params, odd.Code = now, "remote=true", ""
	require.Equal(t, []api.LoggedRequest{ahead, odd}, got)
}

func TestRequestsOfAnAccount(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx, now := keyusage.NewStore(db.DB), t.Context(), db.Now()
		one, other := issue(t, db, 1, ""), issue(t, db, 2, "")
		batch := []api.LoggedRequest{
			logged(one.ID, 1, now.Add(-time.Hour)), logged(one.ID, 2, now), logged(other.ID, 3, now),
			logged(keys.NewID(), 4, now),
		}
		batch[1].Status = 503
		require.NoError(t, s.AddRequests(ctx, batch))
		require.NoError(t, s.AddRequests(ctx, batch), "sent again")
		require.NoError(t, s.AddRequests(ctx, nil))
		recent := storetest.Must(s.RecentRequests(ctx, one.Account))(t)
		require.Len(t, recent, 2)
		require.Equal(t, []api.LoggedRequest{batch[1], batch[0]}, []api.LoggedRequest{
			recent[0].LoggedRequest, recent[1].LoggedRequest,
		})
		require.Equal(t, "oda_live_…abcd", recent[0].KeyShown)
		require.Equal(t, recent[:1], keyusage.RequestFilter{Result: keyusage.ResultFailed}.Apply(recent))

		// the log follows its key to another account
		require.NoError(t, db.Exec("UPDATE api_keys SET account_id = ? WHERE id = ?", other.Account, one.ID).Error)
		recent = storetest.Must(s.RecentRequests(ctx, other.Account))(t)
		require.Len(t, recent, 3)
	})
}

func TestOldRequestsLeaveTheLog(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx, begin := keyusage.NewStore(db.DB), t.Context(), db.Now()
		busy, quiet := issue(t, db, 1, ""), issue(t, db, 2, "")
		batch := []api.LoggedRequest{logged(quiet.ID, 0, begin)}
		for i := range 1600 { // 500 a second
			batch = append(batch, logged(busy.ID, i+1, begin.Add(time.Duration(i)*2*time.Millisecond)))
		}
		require.NoError(t, s.AddRequests(ctx, batch))
		stored := func() (n int) {
			require.NoError(t, db.Raw("SELECT coalesce(sum(calls), 0) FROM request_log_seconds").Scan(&n).Error)
			return n
		}
		require.Equal(t, 1+1600, stored())
		for range 2 {
			require.NoError(t, s.PruneRequests(ctx))
			require.Equal(t, 1+1100, stored(), "whole seconds")
		}
		recent := storetest.Must(s.RecentRequests(ctx, busy.Account))(t)
		require.Len(t, recent, api.RequestLogSize)
		require.Equal(t, batch[len(batch)-1].ID, recent[0].ID, "the newest remain")

		db.Advance(api.RequestLogDuration)
		recent = storetest.Must(s.RecentRequests(ctx, quiet.Account))(t)
		require.Empty(t, recent, "not shown even before it is deleted")
		db.Advance(time.Minute)
		require.NoError(t, s.PruneRequests(ctx))
		require.Zero(t, stored())
	})
}

// BenchmarkTenThousandCalls measures what the request log costs for 10,000 calls of five keys at
// 500 a second, as two gateways send them, and the page of an account with 1,000 entries.
func BenchmarkTenThousandCalls(b *testing.B) {
	for dialect, newURL := range map[string]func(testing.TB) string{"postgres": testkit.Schema.Postgres,
		"sqlite": testkit.Schema.SQLite} {
		b.Run(dialect, func(b *testing.B) {
			start := time.Now()
			db := testkit.Open(b, newURL(b), func() time.Time { return start })
			s, calls, cpu := keyusage.NewStore(db.DB), 0, time.Duration(0)
			var held []keys.Key
			for i := range 5 {
				held = append(held, issue(b, db, i, ""))
			}
			for b.Loop() {
				b.StopTimer()
				var bodies [][]byte
				for range 10 { // batches of two seconds
					var batch api.UsageBatch
					for i := range 1000 {
						calls++
						r := logged(held[i%5].ID, 0, start.Add(-24*time.Hour+time.Duration(calls)*2*time.Millisecond))
						r.ID = uuid.Must(uuid.NewV7()).String()
						batch.Requests = append(batch.Requests, r)
					}
					bodies = append(bodies, storetest.Must(json.Marshal(batch))(b))
				}
				before := testkit.ProcessorTime(b)
				b.StartTimer()
				for _, body := range bodies {
					var batch api.UsageBatch
					require.NoError(b, json.Unmarshal(body, &batch))
					requests := storetest.Must(keyusage.CheckRequests(batch.Requests, start))(b)
					require.NoError(b, s.AddRequests(b.Context(), requests))
				}
				cpu += testkit.ProcessorTime(b) - before
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms")
			require.NoError(b, s.PruneRequests(b.Context()))
			before := time.Now()
			recent := storetest.Must(s.RecentRequests(b.Context(), held[0].Account))(b)
			b.ReportMetric(float64(time.Since(before).Microseconds())/1000, "page-ms")
			require.Len(b, recent, api.RequestLogSize)
		})
	}
}
