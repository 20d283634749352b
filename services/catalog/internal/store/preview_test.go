package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/store"
)

func TestPreviewDoesNotWrite(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, db *database.DB) {
		file := apitest.Lines("a", "b")
		file[0].Curation = &api.Curation{Notes: "n"}
		_, err := s.Import(t.Context(), "ann", apitest.File(file), false)
		require.NoError(t, err)
		state := func() (all []map[string]any) {
			for _, table := range []string{"change_sequence", "listings", "curations", "summaries", "listing_changes",
				"feed_cursor"} {
				var rows []map[string]any
				require.NoError(t, db.Raw("SELECT * FROM "+table+" ORDER BY 1").Scan(&rows).Error)
				all = append(all, rows...)
			}
			if db.Name() == "postgres" { // even a transaction that is rolled back increments it
				var rows []map[string]any
				require.NoError(t, db.Raw("SELECT last_value FROM listing_changes_id_seq").Scan(&rows).Error)
				all = append(all, rows...)
			}
			return all
		}
		before := state()
		file[0].Company.Name, file[0].Curation, file[1].Visibility = "Z", &api.Curation{Notes: "m"},
			listingfile.Published
		preview, err := s.Preview(t.Context(), apitest.File(append(file, apitest.Lines("c")...)))
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 0, 1}, []int{preview.Created, preview.Updated, preview.Unchanged,
			preview.Published})
		require.Equal(t, before, state())
		_, err = s.Import(t.Context(), "ann", apitest.File(file), false)
		require.NoError(t, err)
		require.NotEqual(t, before, state())
	})
}

// A response of a dry run stays small however large the file is: further changes are only counted.
func TestPreviewListsAtMost16MiBOfChanges(t *testing.T) {
	s, _ := open(t, schema.SQLite(t))
	file := apitest.Lines("a", "b", "c", "d", "e", "f")
	overview := func(letter string) {
		for i := range file {
			file[i].Overview = strings.Repeat(letter, 2<<20)
		}
	}
	overview("x")
	_, err := s.Import(t.Context(), "ann", apitest.File(file), false)
	require.NoError(t, err)
	overview("y")
	preview, err := s.Preview(t.Context(), apitest.File(file))
	require.NoError(t, err)
	require.Equal(t, 6, preview.Updated)
	listed := len(preview.Changes) // require.Len would print them
	require.Equal(t, 4, listed, "4 MiB each, of old and new text")
	require.Equal(t, 2, preview.Unlisted)
}
