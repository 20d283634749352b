package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/services/catalog/internal/store"
)

func index(t *testing.T, db *database.DB) (rows []map[string]any) {
	t.Helper()
	require.NoError(t, db.Raw("SELECT * FROM listing_index ORDER BY listing_id").Scan(&rows).Error)
	return rows
}

// Listings from before the index, and changes by a replica without it, get their rows from a repair.
func TestRepairIndexDerivesMissingAndOutdatedRows(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, db *database.DB) {
		var ids []string
		for i := range 600 { // more than one batch
			ids = append(ids, fmt.Sprintf("r-%03d", i))
		}
		_, err := s.Import(t.Context(), "ann", apitest.File(apitest.Lines(ids...)), false)
		require.NoError(t, err)
		checked := at.Add(-time.Hour)
		require.NoError(t, s.SaveSummaries(t.Context(), feed.Cursor{}, []api.EncodedSummary{apitest.Encoded(api.Summary{
			Slug: "r-007", Sequence: 1, LastCheckedAt: &checked, LastOutcome: api.OutcomeVerified,
		})[0]}, feed.Cursor{}))
		want := index(t, db)
		require.Len(t, want, 600)
		require.Equal(t, "verified", want[7]["status"])
		require.EqualValues(t, checked.Add(api.FreshnessWindow).UnixMicro(), want[7]["due_at"])

		require.NoError(t, db.Exec("DELETE FROM listing_index WHERE listing_id > 'r-010'").Error)
		require.NoError(t, db.Exec("UPDATE listing_index SET sequence = 0, status = 'outdated' WHERE listing_id = 'r-007'").Error)
		require.NoError(t, s.RepairIndex(t.Context()))
		require.Equal(t, want, index(t, db))
	})
}
