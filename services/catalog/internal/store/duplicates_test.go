package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
)

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
