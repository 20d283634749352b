package keyusage_test

import (
	"encoding/json"
	"syscall"
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

// BenchmarkTenThousandCalls measures what the request log costs for 10,000 calls of five keys at
// 500 a second, as two gateways send them, and the page of an account with 1,000 entries.
func BenchmarkTenThousandCalls(b *testing.B) {
	for dialect, newURL := range map[string]func(testing.TB) string{"postgres": testkit.Schema.Postgres, "sqlite": testkit.Schema.SQLite} {
		b.Run(dialect, func(b *testing.B) {
			url, start := newURL(b), time.Now()
			db := testkit.Open(b, url, func() time.Time { return start })
			s := keyusage.NewRequestLog(db.DB)
			var held []keys.Key
			for i := range 5 {
				held = append(held, issue(b, db, string(rune('0'+i))))
			}
			var cpu, server time.Duration
			calls := 0
			for b.Loop() {
				b.StopTimer()
				var bodies [][]byte
				for start := 0; start < 10_000; start += 1000 { // two seconds
					var batch api.UsageBatch
					for i := range 1000 {
						at := db.Now().Add(-24*time.Hour + time.Duration(calls)*2*time.Millisecond)
						calls++
						id, err := uuid.NewV7()
						require.NoError(b, err)
						r := api.LoggedRequest{ID: id.String(), Key: held[i%5].ID, At: at, Route: "/api/v1/opportunities", Params: "country=CA&limit=50", Status: 200, Duration: 1234 * time.Microsecond}
						batch.Requests = append(batch.Requests, r)
					}
					body, err := json.Marshal(batch)
					require.NoError(b, err)
					bodies = append(bodies, body)
				}
				serverBefore, before := storetest.ServerCPU(b, url), processCPU(b)
				b.StartTimer()
				for _, body := range bodies {
					var batch api.UsageBatch
					require.NoError(b, json.Unmarshal(body, &batch))
					requests, err := keyusage.CheckRequests(batch.Requests, db.Now())
					require.NoError(b, err)
					require.NoError(b, s.Add(b.Context(), requests))
				}
				cpu += processCPU(b) - before
				server += storetest.ServerCPU(b, url) - serverBefore
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms")
			b.ReportMetric(float64(server.Milliseconds())/float64(b.N), "server-cpu-ms")
			require.NoError(b, s.Prune(b.Context()))
			before := time.Now()
			recent, err := s.Recent(b.Context(), held[0].Account)
			require.NoError(b, err)
			b.ReportMetric(float64(time.Since(before).Microseconds())/1000, "page-ms")
			require.Len(b, recent, api.RequestLogSize)
		})
	}
}

func processCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
