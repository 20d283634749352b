package store_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

var verifyListings = flag.Int("verify.listings", 1_000, "listings of BenchmarkVerify, with a hundred events each")

// BenchmarkVerify signs and verifies a history with a hundred events of each listing, in the order
// in which a service records them: a check of every listing, then the next check of every listing.
// Every tenth event is a review with facts and sources.
func BenchmarkVerify(b *testing.B) {
	const each = 100
	listings := *verifyListings
	for dialect, url := range map[string]string{"postgres": schema.Postgres(b), "sqlite": schema.SQLite(b)} {
		b.Run(dialect, func(b *testing.B) {
			s := open(b, url)
			s.insertHistory(b, listings, each)
			s.sign(b)
			var peak heapPeak
			b.ResetTimer()
			for b.Loop() {
				stop := peak.watch()
				report := s.verify(b)
				stop()
				require.True(b, report.Fits, "%v", report.Findings)
				require.EqualValues(b, listings*each, report.Events)
			}
			b.StopTimer()
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(listings*each)*1e6, "us/event")
			b.ReportMetric(float64(peak.bytes)/(1<<20), "MiB-heap")
		})
	}
}

// insertHistory inserts events without the cost of appends, and derives the summaries.
func (s testStore) insertHistory(b *testing.B, listings, each int) {
	b.Helper()
	var records []event.Record
	for n := range listings * each {
		slug, i := fmt.Sprintf("listing-%06d", n%listings), n/listings
		e := link(slug, i*24, api.OutcomeReachable)
		if i%10 == 0 {
			e = apitest.Verified(slug, e.CheckedAt)
		}
		r, err := event.New(e)
		require.NoError(b, err)
		r.Sequence, r.ID, r.Actor, r.RecordedAt = int64(n+1), uuid.NewString(), "link-checker", e.CheckedAt.UnixMicro()
		require.NoError(b, r.Attach(api.Evidence{}))
		if records = append(records, r); len(records) == 5000 || n+1 == listings*each {
			require.NoError(b, database.Insert(s.db.WithContext(b.Context()), records, ""))
			records = records[:0]
		}
	}
	require.NoError(b, s.db.Exec("UPDATE change_sequence SET value = ?", listings*each).Error)
	require.NoError(b, s.db.Exec("ANALYZE").Error)
	require.NoError(b, s.db.Transaction(func(tx *gorm.DB) error {
		for n := range listings {
			slug := fmt.Sprintf("listing-%06d", n)
			_, sum, err := s.AsOf(b.Context(), slug, recorded.AddDate(10, 0, 0))
			require.NoError(b, err)
			text, err := json.Marshal(sum)
			require.NoError(b, err)
			require.NoError(b, tx.Exec("INSERT INTO summaries VALUES (?, ?, ?, ?, '', '', '')", slug, sum.Sequence,
				each, string(text)).Error)
		}
		return nil
	}))
}

// heapPeak is the largest heap in use that was seen.
type heapPeak struct{ bytes uint64 }

// watch measures the heap until the returned function is called.
func (p *heapPeak) watch() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ticker := time.NewTicker(20 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			p.bytes = max(p.bytes, m.HeapInuse)
			select {
			case <-ticker.C:
			case <-done:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
