package store_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

var verifyListings = flag.Int("verify.listings", 1_000, "listings of BenchmarkVerify, with a hundred events each")

// BenchmarkVerify signs and verifies a history.
func BenchmarkVerify(b *testing.B) {
	const each, atOnce = 100, 50
	listings := *verifyListings
	for dialect, url := range map[string]string{"postgres": schema.Postgres(b), "sqlite": schema.SQLite(b)} {
		b.Run(dialect, func(b *testing.B) {
			s, k := open(b, url), keys(b, seed)
			var events []api.VerificationEvent
			for slug := range listings { // all events of a listing in one append, which reads the listing's history
				for i := range each {
					events = append(events, link(fmt.Sprintf("listing-%05d", slug), i*24, api.OutcomeReachable))
				}
				if (slug+1)%atOnce == 0 || slug+1 == listings {
					s.add(b, events...)
					events = events[:0]
				}
			}
			begun := time.Now()
			s.sign(b, k)
			signed := time.Since(begun)
			b.ResetTimer()
			for b.Loop() {
				report := s.audit(b, k)
				require.True(b, report.Fits, "%v", report.Findings)
				require.EqualValues(b, listings*each, report.Events)
			}
			b.StopTimer()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(signed.Seconds(), "s/first-checkpoint")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(listings*each)*1e6, "us/event")
			b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap")
		})
	}
}
