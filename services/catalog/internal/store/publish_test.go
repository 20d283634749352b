package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/store"
)

var needsSource = api.Problems{listingfile.NeedsSource}

func TestPublishNeedsASourceAndCountsNeverReviewed(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		file := apitest.Lines("a", "b", "bare", "c", "d")
		file[2].Sources = []api.Source{}
		_, err := s.Import(t.Context(), "ann", apitest.File(file), false)
		require.NoError(t, err)
		require.NoError(t, s.Save(t.Context(), feed.Cursor{},
			apitest.Encoded(api.Summary{Slug: "b", Sequence: 1, LastCheckedAt: &at},
				api.Summary{Slug: "c", Sequence: 2}), feed.Cursor{}))

		before, err := s.Sequence(t.Context())
		require.NoError(t, err)
		for name, publish := range map[string]func() (api.ImportReport, error){
			"by ids": func() (api.ImportReport, error) {
				return s.Publish(t.Context(), "ann", []string{"a", "c", "bare"}, false)
			},
			"all":      func() (api.ImportReport, error) { return s.PublishAll(t.Context(), "ann", false) },
			"all, dry": func() (api.ImportReport, error) { return s.PublishAll(t.Context(), "ann", true) },
			"by ids, dry": func() (api.ImportReport, error) {
				return s.Publish(t.Context(), "ann", []string{"b", "d", "bare"}, true)
			},
		} {
			report, err := publish()
			require.NoError(t, err)
			require.Equal(t, api.ImportReport{Rejected: []api.RejectedLine{{Line: 3, ID: "bare",
				Problems: needsSource}}}, report, name)
		}
		report, err := s.Publish(t.Context(), "ann", []string{"a", "b"}, true)
		require.NoError(t, err)
		require.Equal(t, api.ImportReport{Updated: 2, Published: 2, NeverReviewed: 1, Rejected: []api.RejectedLine{}},
			report)
		now, err := s.Sequence(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, now, "nothing was changed")

		_, err = s.Withdraw(t.Context(), "ann", []string{"bare"}, "")
		require.NoError(t, err, "a candidate without a source can be withdrawn")
		report, err = s.Publish(t.Context(), "ann", []string{"a", "b"}, false)
		require.NoError(t, err)
		require.Equal(t, api.ImportReport{Applied: true, Updated: 2, Published: 2, NeverReviewed: 1,
			Rejected: []api.RejectedLine{}}, report)
		report, err = s.PublishAll(t.Context(), "ann", true)
		require.NoError(t, err)
		require.Equal(t, api.ImportReport{Updated: 2, Published: 2, NeverReviewed: 2, Rejected: []api.RejectedLine{}},
			report)
	})
}

// published returns lines of a file that publishes listings with the ids.
func published(ids ...string) []listingfile.Line {
	lines := apitest.Lines(ids...)
	for i := range lines {
		lines[i].Visibility, lines[i].Number = listingfile.Published, i+2
	}
	return lines
}

func TestImportThatAsksPublishesNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		file := published("a", "b")
		report, err := s.Import(t.Context(), "ann", apitest.File(file), true)
		require.NoError(t, err)
		require.False(t, report.Applied)
		require.Equal(t, []int{2, 2}, []int{report.Published, report.NeverReviewed})
		for e := range s.Export(t.Context()) {
			require.Fail(t, "something was imported", e.ID)
		}
		report, err = s.Import(t.Context(), "ann", apitest.File(file[:1]), true)
		require.NoError(t, err)
		require.True(t, report.Applied, "one listing needs no question")
	})
}

// A newer export withdraws what a restored database still has as published.
func TestImportAppliesWithdrawals(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		export := published("a", "b")
		_, err := s.Import(t.Context(), "ann", apitest.File(export), false)
		require.NoError(t, err)
		export[0].Visibility = listingfile.Withdrawn
		preview, err := s.Preview(t.Context(), apitest.File(export))
		require.NoError(t, err)
		require.Equal(t, 1, preview.Withdrawn)
		require.True(t, preview.Changes[0].Withdrawn)
		for _, want := range []api.ImportReport{
			{Applied: true, Updated: 1, Unchanged: 1, Withdrawn: 1, Rejected: []api.RejectedLine{}},
			{Applied: true, Unchanged: 2, Rejected: []api.RejectedLine{}}, // again
		} {
			report, err := s.Import(t.Context(), "ann", apitest.File(export), false)
			require.NoError(t, err)
			require.Equal(t, want, report)
		}
		states, err := s.Listings(t.Context(), 0, 10)
		require.NoError(t, err)
		for _, l := range states {
			require.Equal(t, l.ID == "b", l.Published, l.ID)
		}
		detail, err := s.Detail(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, "withdrawn", detail.Changes[0].Action)
	})
}

func TestImportKeepsWithdrawnListingsAndSources(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		export := published("a", "b", "c")
		report, err := s.Import(t.Context(), "ann", apitest.File(export), false)
		require.NoError(t, err)
		require.Equal(t, api.ImportReport{Applied: true, Created: 3, Published: 3, NeverReviewed: 3,
			Rejected: []api.RejectedLine{}}, report)
		_, err = s.Withdraw(t.Context(), "ann", []string{"a", "b"}, "")
		require.NoError(t, err)

		export[0].Summary = "Other words."
		preview, err := s.Preview(t.Context(), apitest.File(export))
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, preview.KeptWithdrawn)
		require.Zero(t, preview.Published)
		report, err = s.Import(t.Context(), "ann", apitest.File(export), false)
		require.NoError(t, err)
		require.Equal(t, api.ImportReport{
			Applied: true, Updated: 1, Unchanged: 2, KeptWithdrawn: []string{"a", "b"}, Rejected: []api.RejectedLine{},
		}, report)
		for e, err := range s.Export(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, e.ID == "c", e.Visibility == listingfile.Published, e.ID)
		}

		for i := range export {
			export[i].Visibility, export[i].Sources = "", []api.Source{}
		}
		rejected := []api.RejectedLine{{Line: 4, ID: "c", Problems: needsSource}}
		report, err = s.Import(t.Context(), "ann", apitest.File(export), false)
		require.NoError(t, err)
		require.Equal(t, api.ImportReport{Rejected: rejected}, report)
		preview, err = s.Preview(t.Context(), apitest.File(export))
		require.NoError(t, err)
		require.Equal(t, api.ImportReport{Rejected: rejected}, preview)
	})
}
