package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
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

func TestPreviewDoesNotWrite(t *testing.T) {
	readerOnEach(t, func(r reader) {
		file := apitest.Lines("a", "b")
		file[0].Curation, file[1].Visibility = &api.Curation{Notes: "n"}, listingfile.Published
		r.importLines(file...)
		r.save(api.Summary{Slug: "b", Sequence: 1, LastCheckedAt: new(at.Add(-time.Hour)),
			LastOutcome: api.OutcomeVerified})
		rows := func(statement string) (all []map[string]any) {
			require.NoError(r.t, r.db.Raw(statement).Scan(&all).Error)
			return all
		}
		state := func() (all []map[string]any) {
			for _, table := range []string{"change_sequence", "listings", "curations", "summaries", "listing_changes",
				"feed_cursor"} {
				all = append(all, rows("SELECT * FROM "+table+" ORDER BY 1")...)
			}
			if r.db.Dialect == database.Postgres { // even a transaction that is rolled back increments it
				all = append(all, rows("SELECT last_value FROM listing_changes_id_seq")...)
			}
			return all
		}
		before := state()
		file = append(file, apitest.Lines("c")...)
		file[0].Curation, file[0].Visibility = &api.Curation{Notes: "m"}, listingfile.Published
		file[1].Company.Name = "Z"
		counts := func(report api.ImportReport) []int {
			return []int{report.Created, report.Updated, report.Unchanged, report.Published, report.NeverReviewed}
		}
		preview := r.report(r.Preview(r.t.Context(), apitest.File(file)))
		require.Equal(r.t, []int{1, 2, 0, 1, 1}, counts(preview))
		require.Equal(r.t, 1, preview.NeedsReview)
		require.Equal(r.t, before, state())
		require.Equal(r.t, counts(preview), counts(r.importLines(file...)))
		require.NotEqual(r.t, before, state())
	})
}

// A response of a dry run stays small however large the file is: further changes are only counted.
func TestPreviewListsAtMost16MiBOfChanges(t *testing.T) {
	r := newReader(t, schema.SQLite(t))
	file := func(letter string) []listingfile.Line {
		lines := apitest.Lines("a", "b", "c", "d", "e", "f")
		for i := range lines {
			lines[i].Overview = strings.Repeat(letter, 2<<20)
		}
		return lines
	}
	r.importLines(file("x")...)
	preview := r.report(r.Preview(t.Context(), apitest.File(file("y"))))
	require.Equal(t, 6, preview.Updated)
	listed := len(preview.Changes) // require.Len would print them
	require.Equal(t, 4, listed, "4 MiB each, of old and new text")
	require.Equal(t, 2, preview.Unlisted)
}

func TestImportWarnsOfDuplicates(t *testing.T) {
	readerOnEach(t, func(r reader) {
		line := func(id, name, site string) listingfile.Line {
			l := apitest.Lines(id)[0]
			l.Company.Name, l.Company.Website = name, site
			return l
		}
		known := []listingfile.Line{line("kelp", "Kélp Works Inc.", "https://kelp.works")}
		known[0].Visibility = listingfile.Published
		require.Empty(r.t, r.importLines(known...).Warnings)

		file := []listingfile.Line{
			line("a", "Other", "https://WWW.Kelp.Works.:443/x"),
			line("b", "THE KE\u0301LP  WORKS", "https://b.example"), line("c", "ＫＥＬＰ-Works", "http://c.example"),
			line("d", "Kelp", "https://d.example"), line("e", "Else", "https://d.example:8080"),
			line("kelp", "Kelp Works", "https://kelp.works"),
		}
		want := []string{
			"a may be a duplicate: kelp (published) has the same host or company name",
			"b may be a duplicate: kelp (published) has the same host or company name",
			"c may be a duplicate: kelp (published) has the same host or company name",
			"e may be a duplicate: d (private) has the same host or company name",
		}
		require.Equal(r.t, want, r.report(r.Preview(r.t.Context(), apitest.File(file))).Warnings)
		require.Equal(r.t, want, r.importLines(file...).Warnings)
		require.Empty(r.t, r.importLines(file...).Warnings, "no listing is new")
	})
}
