package database_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
)

type uploaded struct{ Text string }

func onUploads(t *testing.T, test func(t *testing.T, db *database.DB)) {
	t.Helper()
	for dialect, url := range storetest.Databases(t) {
		t.Run(dialect, func(t *testing.T) {
			db := open(t, url)
			require.NoError(t, db.Exec(`CREATE TABLE uploads (upload text, begun_at bigint, place bigint, number bigint, size bigint, content text,
				PRIMARY KEY (upload, place, number))`).Error)
			test(t, db)
		})
	}
}

func TestUploadYieldsLinesInOrderInBoundedBatches(t *testing.T) {
	onUploads(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
		other, err := database.NewUpload[uploaded](t.Context(), db, now)
		require.NoError(t, err)
		require.NoError(t, other.Add(0, 1, uploaded{"other"}))
		require.NoError(t, other.End())

		u, err := database.NewUpload[uploaded](t.Context(), db, now)
		require.NoError(t, err)
		var want []string
		for number := range 1200 {
			require.NoError(t, u.Add(1, number, uploaded{"short"}))
			want = append(want, "short")
		}
		long := strings.Repeat("x", 1<<20)
		for number := range 9 {
			require.NoError(t, u.Add(2, number, uploaded{long}))
			want = append(want, long)
		}
		require.NoError(t, u.Add(0, 5000, uploaded{"first"}))
		require.NoError(t, u.End())
		require.EqualValues(t, 1210, u.Lines)
		var got []string
		for batch, err := range u.Batches(db.DB) {
			require.NoError(t, err)
			size := 0
			for _, line := range batch {
				got, size = append(got, line.Text), size+len(line.Text)
			}
			require.LessOrEqual(t, len(batch), 500)
			require.Less(t, size, 6<<20)
		}
		require.Equal(t, append([]string{"first"}, want...), got)

		require.NoError(t, u.Delete())
		for range other.Batches(db.DB) {
			require.NoError(t, err)
		}
		_, err = database.NewUpload[uploaded](t.Context(), db, now.Add(25*time.Hour))
		require.NoError(t, err)
		for _, err := range other.Batches(db.DB) { // abandoned, or lost in a crash
			require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code, "%v", err)
		}
	})
}

func TestUploadReportsFailedInsert(t *testing.T) {
	onUploads(t, func(t *testing.T, db *database.DB) {
		u, err := database.NewUpload[uploaded](t.Context(), db, time.Now())
		require.NoError(t, err)
		require.NoError(t, u.Add(0, 1, uploaded{}))
		require.NoError(t, u.Add(0, 1, uploaded{}))
		require.Error(t, u.End())
		require.NoError(t, u.Delete())
	})
}
