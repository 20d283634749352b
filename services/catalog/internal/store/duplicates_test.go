package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/store"
)

func TestImportWarnsOfDuplicates(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		line := func(id, name, site string) listingfile.Line {
			l := apitest.Lines(id)[0]
			l.Company.Name, l.Company.Website = name, site
			return l
		}
		known := []listingfile.Line{line("kelp", "Kélp Works Inc.", "https://kelp.works")}
		known[0].Visibility = listingfile.Published
		report, err := s.Import(t.Context(), "ann", apitest.File(known), false)
		require.NoError(t, err)
		require.Empty(t, report.Warnings)

		file := apitest.File([]listingfile.Line{
			line("a", "Other", "https://WWW.Kelp.Works.:443/x"),
			line("b", "THE KE\u0301LP  WORKS", "https://b.example"), line("c", "ＫＥＬＰ-Works", "http://c.example"),
			line("d", "Kelp", "https://d.example"), line("e", "Else", "https://d.example:8080"),
			line("kelp", "Kelp Works", "https://kelp.works"),
		})
		want := []string{
			"a may be a duplicate: kelp (published) has the same host or company name",
			"b may be a duplicate: kelp (published) has the same host or company name",
			"c may be a duplicate: kelp (published) has the same host or company name",
			"e may be a duplicate: d (private) has the same host or company name",
		}
		preview, err := s.Preview(t.Context(), file)
		require.NoError(t, err)
		require.Equal(t, want, preview.Warnings)
		report, err = s.Import(t.Context(), "ann", file, false)
		require.NoError(t, err)
		require.True(t, report.Applied)
		require.Equal(t, want, report.Warnings)
		report, err = s.Import(t.Context(), "ann", file, false)
		require.NoError(t, err)
		require.Empty(t, report.Warnings, "no listing is new")
	})
}
