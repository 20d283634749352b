package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listingtest"
	"opportunity.internal/services/catalog/internal/snapshot"
	"opportunity.internal/services/catalog/internal/store"
)

// BenchmarkLoad measures the time from an empty catalog to ready with 100,000 maintained records of
// about 2.9 KB, three quarters of them reviewed.
func BenchmarkLoad(b *testing.B) {
	const n = 100_000
	for dialect, url := range map[string]string{"postgres": schema.Postgres(b), "sqlite": schema.SQLite(b)} {
		b.Run(dialect, func(b *testing.B) {
			s, _ := open(b, url)
			seed(b, s, n)
			before := cpuTime(b)
			for b.Loop() {
				live := snapshot.NewLive(s, time.Now, slog.New(slog.DiscardHandler))
				require.NoError(b, live.Poll(context.Background()))
				require.Equal(b, n, live.Stats().Records)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/load")
			b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/load") // more reliable on a busy machine
		})
	}
}

// cpuTime returns the CPU time of this process, without the database server's.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func seed(b *testing.B, s *store.Store, n int) {
	b.Helper()
	for at := 0; at < n; at += 5000 {
		var lines []listingfile.Line
		var summaries []api.Summary
		for i, r := range listingtest.Records(uint64(at), 5000, time.Now()) {
			id := fmt.Sprintf("platform-%d", at+i)
			r.Entry.ID, r.Entry.Overview = id, strings.Repeat("An overview of the platform. ", 53)
			lines = append(lines, listingfile.Line{Listing: r.Entry.Listing, Visibility: listingfile.Published})
			if r.Summary != nil {
				r.Summary.Slug, r.Summary.Sequence = id, int64(at+i+1)
				summaries = append(summaries, *r.Summary)
			}
		}
		_, err := s.Import(context.Background(), "bench", apitest.File(lines), false)
		require.NoError(b, err)
		require.NoError(b, s.Save(context.Background(), feed.Cursor{}, apitest.Encoded(summaries...),
			feed.Cursor{}))
	}
}
