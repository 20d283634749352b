package listing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// example is a line that uses every field.
func example(t *testing.T) listingfile.Line {
	t.Helper()
	f, err := listingfile.Read(bytes.NewReader(listingfile.Example), 1)
	require.NoError(t, err)
	require.Empty(t, f.Refused)
	return f.Lines[0]
}

func TestCreateAndUpdate(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	line := example(t)
	line.PublishedAt, line.Visibility = nil, ""
	entry := listing.Create(line, now)
	require.Equal(t, listingfile.Private, entry.Visibility)
	require.Nil(t, entry.PublishedAt)

	for name, c := range map[string]struct {
		edit     func(l *listingfile.Line)
		fields   []string
		material bool
	}{
		"nothing":        {func(*listingfile.Line) {}, nil, false},
		"company":        {func(l *listingfile.Line) { l.Company.Name = "B" }, []string{"company"}, true},
		"applicationUrl": {func(l *listingfile.Line) { l.ApplicationURL += "/2" }, []string{"applicationUrl"}, true},
		"category":       {func(l *listingfile.Line) { l.Category = api.Host }, []string{"category"}, true},
		"startingCost":   {func(l *listingfile.Line) { l.StartingCost = "1" }, []string{"startingCost"}, true},
		"workModel":      {func(l *listingfile.Line) { l.WorkModel = "1" }, []string{"workModel"}, true},
		"no facts":       {func(l *listingfile.Line) { l.Facts = nil }, []string{"facts"}, true},
		"copy": {func(l *listingfile.Line) {
			l.Subcategory, l.Summary, l.Overview, l.Sources, l.CompanyProfile = nil, "1", "2", []api.Source{}, nil
		}, []string{"subcategory", "summary", "overview", "sources", "companyProfile"}, false},
		"curation":      {func(l *listingfile.Line) { l.Curation = &listingfile.Curation{Notes: "2"} }, []string{"curation"}, false},
		"no curation":   {func(l *listingfile.Line) { l.Curation = nil }, nil, false},
		"publication":   {func(l *listingfile.Line) { l.Visibility = listingfile.Published }, []string{"publishedAt", "visibility"}, false},
		"not withdrawn": {func(l *listingfile.Line) { l.Visibility = listingfile.Withdrawn }, nil, false},
	} {
		edited := example(t)
		edited.PublishedAt, edited.Visibility = nil, ""
		c.edit(&edited)
		later := now.Add(time.Hour)
		updated, change := entry.Update(edited, later)
		require.Equal(t, c.fields, change.Fields, name)
		require.Equal(t, c.material, change.Material, name)
		if c.material {
			require.Equal(t, later, *updated.ChangedAt, name)
		} else {
			require.Nil(t, updated.ChangedAt, name)
		}
		again, change := updated.Update(edited, later.Add(time.Hour))
		require.Empty(t, change.Fields, name)
		require.Empty(t, cmp.Diff(updated, again), name)
	}
}

// FuzzRead holds the reader to two promises: it never fails on any input, and what it accepts it accepts again, unchanged, in
// the form of an export.
func FuzzRead(f *testing.F) {
	f.Add(listingfile.Example)
	f.Add([]byte("\ufeff" + string(listingfile.Example) + "\r\n\n{}\n[]\nnull"))
	if sample, err := os.ReadFile("../../testdata/platforms.jsonl"); err == nil {
		for i, line := range bytes.SplitAfterN(sample, []byte("\n"), 6)[:5] {
			f.Add(append(line, fmt.Sprintf(`{"id":"x-%d"}`, i)...))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := listingfile.Read(bytes.NewReader(file), listingfile.MaxReported)
		require.NoError(t, err)
		now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		for _, line := range in.Lines {
			entry := listing.Create(line, now)
			exported, err := json.Marshal(entry)
			require.NoError(t, err)
			again, err := listingfile.Read(bytes.NewReader(exported), 1)
			require.NoError(t, err)
			require.Empty(t, again.Refused, string(exported))
			_, change := entry.Update(again.Lines[0], now)
			require.Empty(t, change.Fields)
			_, err = json.Marshal(entry.Public(api.Summary{}, now))
			require.NoError(t, err)
		}
	})
}
