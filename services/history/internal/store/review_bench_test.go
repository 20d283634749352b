package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/services/history/internal/event"
)

// BenchmarkReview measures the sheet's part of the history service and a review, with 1,000,000
// events of 100,000 listings on Postgres.
func BenchmarkReview(b *testing.B) {
	s := open(b, schema.Postgres(b))
	require.NoError(b, s.db.Exec(`INSERT INTO verification_events SELECT n, 'e-' || n, 'r-' || n % 100000, 1790000000000000 + n, 'application-link',
		'reachable', '[]', NULL, '', 'link-checker', 1790000000000000 + n, 'c' || n, 'p' || n, 'h' || n, '{}' FROM generate_series(1, 1000000) n`).Error)
	require.NoError(b, s.db.Exec("UPDATE change_sequence SET value = 1000000").Error)
	require.NoError(b, s.db.Exec("VACUUM ANALYZE verification_events").Error)
	i := 0
	b.Run("sheet", func(b *testing.B) {
		for b.Loop() {
			i++
			records, _, err := s.RecordHistory(b.Context(), fmt.Sprintf("r-%d", i*7919%100000), "")
			require.NoError(b, err)
			require.Len(b, records, 10)
		}
	})
	b.Run("review", func(b *testing.B) {
		for b.Loop() {
			i++
			at := time.Date(2026, 11, 20, 10, 0, 0, i*1000, time.UTC)
			_, err := s.Review(b.Context(), at, event.Proposal{Actor: "ann",
				Line: eventfile.Line{Event: apitest.Verified(fmt.Sprintf("r-%d", i*7919%100000), at)}})
			require.NoError(b, err)
		}
	})
	b.Run("done today", func(b *testing.B) {
		for b.Loop() {
			done, err := s.ReviewsSince(b.Context(), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
			require.NoError(b, err)
			require.NotEmpty(b, done)
		}
	})
	b.Run("events of an operator", func(b *testing.B) {
		for b.Loop() {
			_, err := s.Acts(b.Context(), event.ActFilter{Actor: "ann", CheckType: api.FactualReview, Limit: 101})
			require.NoError(b, err)
		}
	})
}
