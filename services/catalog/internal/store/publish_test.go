package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
)

func rejectedFor(line int, id string) api.ImportReport {
	return api.ImportReport{Rejected: []api.RejectedLine{{Line: line, ID: id,
		Problems: api.Problems{listingfile.NeedsSource}}}}
}

func TestPublishNeedsASourceAndCountsNeverReviewed(t *testing.T) {
	readerOnEach(t, func(r reader) {
		file := apitest.Lines("a", "b", "bare", "c", "d")
		file[2].Sources = []api.Source{}
		r.importLines(file...)
		r.save(api.Summary{Slug: "b", Sequence: 1, LastCheckedAt: &at}, api.Summary{Slug: "c", Sequence: 2})
		publish := func(dry bool, ids ...string) api.ImportReport {
			if ids == nil {
				return r.report(r.PublishAll(r.t.Context(), "ann", dry))
			}
			return r.report(r.Publish(r.t.Context(), "ann", ids, dry))
		}
		before := r.sequence()
		for _, dry := range []bool{false, true} {
			require.Equal(r.t, rejectedFor(3, "bare"), publish(dry, "a", "c", "bare"))
			require.Equal(r.t, rejectedFor(3, "bare"), publish(dry))
		}
		want := api.ImportReport{Updated: 2, Published: 2, NeverReviewed: 1, Rejected: []api.RejectedLine{}}
		require.Equal(r.t, want, publish(true, "a", "b"))
		require.Equal(r.t, before, r.sequence(), "nothing was changed")

		r.withdraw("bare") // a candidate without a source can be withdrawn
		want.Applied = true
		require.Equal(r.t, want, publish(false, "a", "b"))
		want.Applied, want.NeverReviewed = false, 2
		require.Equal(r.t, want, publish(true))
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
	readerOnEach(t, func(r reader) {
		file := published("a", "b")
		report := r.report(r.Import(r.t.Context(), "ann", apitest.File(file), true))
		require.False(r.t, report.Applied)
		require.Equal(r.t, []int{2, 2}, []int{report.Published, report.NeverReviewed})
		for e := range r.Export(r.t.Context()) {
			require.Fail(r.t, "something was imported", e.ID)
		}
		report = r.report(r.Import(r.t.Context(), "ann", apitest.File(file[:1]), true))
		require.True(r.t, report.Applied, "one listing needs no question")
	})
}

// A newer export withdraws what a restored database still has as published.
func TestImportAppliesWithdrawals(t *testing.T) {
	readerOnEach(t, func(r reader) {
		export := published("a", "b")
		r.importLines(export...)
		export[0].Visibility = listingfile.Withdrawn
		preview := r.report(r.Preview(r.t.Context(), apitest.File(export)))
		require.Equal(r.t, 1, preview.Withdrawn)
		require.True(r.t, preview.Changes[0].Withdrawn)
		require.Equal(r.t, api.ImportReport{Applied: true, Updated: 1, Unchanged: 1, Withdrawn: 1,
			Rejected: []api.RejectedLine{}}, r.importLines(export...))
		require.Equal(r.t, 2, r.importLines(export...).Unchanged)
		for e, err := range r.Export(r.t.Context()) {
			require.NoError(r.t, err)
			require.Equal(r.t, e.ID == "b", e.Visibility == listingfile.Published, e.ID)
		}
		detail, err := r.Detail(r.t.Context(), "a")
		require.NoError(r.t, err)
		require.Equal(r.t, "withdrawn", detail.Changes[0].Action)
	})
}

func TestImportKeepsWithdrawnListingsAndSources(t *testing.T) {
	readerOnEach(t, func(r reader) {
		export := published("a", "b", "c")
		require.Equal(r.t, api.ImportReport{Applied: true, Created: 3, Published: 3, NeverReviewed: 3,
			Rejected: []api.RejectedLine{}}, r.importLines(export...))
		r.withdraw("a", "b")
		export[0].Summary = "Other words."
		preview := r.report(r.Preview(r.t.Context(), apitest.File(export)))
		require.Equal(r.t, []string{"a", "b"}, preview.KeptWithdrawn)
		require.Zero(r.t, preview.Published)
		require.Equal(r.t, api.ImportReport{Applied: true, Updated: 1, Unchanged: 2, KeptWithdrawn: []string{"a", "b"},
			Rejected: []api.RejectedLine{}}, r.importLines(export...))
		for e, err := range r.Export(r.t.Context()) {
			require.NoError(r.t, err)
			require.Equal(r.t, e.ID == "c", e.Visibility == listingfile.Published, e.ID)
		}

		for i := range export {
			export[i].Visibility, export[i].Sources = "", []api.Source{}
		}
		require.Equal(r.t, rejectedFor(4, "c"), r.importLines(export...))
		require.Equal(r.t, rejectedFor(4, "c"), r.report(r.Preview(r.t.Context(), apitest.File(export))))
	})
}
