package catalog_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

func (s *service) preview(file string) api.ImportReport {
	s.t.Helper()
	return servicetest.Read[api.ImportReport](s.Do(http.MethodPost, "/operator/v1/listings/import?dryRun=true", file))
}

// Package store tests that a dry run writes nothing.
func TestDryRunPredictsTheImport(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		records := listingtest.Records(31, 120, startTime)
		s.load(records)
		inDoubt := func() map[string]bool {
			all := map[string]bool{}
			for _, o := range s.walk(api.Commercial, "/api/v1/opportunities?limit=100") {
				all[o.ID] = o.Verification.Status == api.NeedsReview
			}
			return all
		}
		var file bytes.Buffer
		for i := range records {
			switch r := &records[i]; i % 4 {
			case 0:
				r.Entry.StartingCost = "Ten dollars"
			case 1:
				r.Entry.Summary = "Other words"
			case 2:
				r.Entry.Company.Name = "Sold"
			}
			file.Write(records[i].Line())
		}
		file.WriteString(listingLine("new", `,"visibility":"published"`) + listingLine("candidate", ""))
		s.clock.Set(startTime.Add(time.Minute))
		storetest.Eventually(t, "the database is polled at the new time", func() bool {
			return s.get(api.Commercial, "/api/jobs").Status == http.StatusOK
		})
		before := inDoubt()
		preview := s.preview(file.String())
		require.Equal(t, []int{2, 90, 30, 1}, []int{preview.Created, preview.Updated, preview.Unchanged,
			preview.Published})
		report := s.curate("import", file.String())
		require.Equal(t, []int{2, 90, 30, 1}, []int{report.Created, report.Updated, report.Unchanged, report.Published})
		storetest.Eventually(t, "the import is served", func() bool { return len(inDoubt()) == len(before)+1 })
		turned, predicted := map[string]bool{}, map[string]bool{}
		for id, doubt := range inDoubt() {
			if doubt && !before[id] {
				turned[id] = true
			}
		}
		for _, c := range preview.Changes {
			if c.NeedsReview {
				predicted[c.ID] = true
			}
		}
		require.NotEmpty(t, turned)
		require.Equal(t, turned, predicted)
		require.Equal(t, preview.NeedsReview, len(predicted))
	})
}

func TestDryRunShowsChangedFields(t *testing.T) {
	s := start(t, schema.SQLite(t))
	s.curate("import", string(listingfile.Example))
	edited := strings.NewReplacer(`"minimum":0.75`, `"minimum":0.5`, `"excludedRegions":["QC"]`,
		`"excludedRegions":["QC","YT"]`,
		`"startingCost":"None"`, `"startingCost":"<5> CAD"`, `"visibility":"private"`, `"visibility":"published"`,
		`,"curation":{`, `,"curation":{"notes":"x",`,
		`,"notes":"Asked about Quebec."`, "").Replace(string(listingfile.Example))
	preview := s.preview(edited)
	text := func(v string) json.RawMessage { return json.RawMessage(v) }
	require.Equal(t, []api.ListingChange{{ID: "maple-transcripts", Change: "updated", Published: true,
		Fields: []api.FieldChange{
			{Field: "curation.notes", Old: text(`"Asked about Quebec."`), New: text(`"x"`)},
			{Field: "facts.countryEligibility[0].excludedRegions", Old: text(`["CA-QC"]`),
				New: text(`["CA-QC","CA-YT"]`)},
			{Field: "facts.pay.minimum", Old: text("0.75"), New: text("0.5")},
			{Field: "startingCost", Old: text(`"None"`), New: text(`"<5> CAD"`)},
			{Field: "visibility", Old: text(`"private"`), New: text(`"published"`)},
		}}}, preview.Changes)

	rejected := s.preview(listingLine("good", "") + listingLine("bad", `,"kind":"x"`))
	require.Equal(t, []api.RejectedLine{{Line: 2, ID: "bad", Problems: apitest.Problems("kind: is not a known field")}},
		rejected.Rejected)
	require.Zero(t, rejected.Created)
	for _, query := range []string{"dryRun=yes", "dryrun=true", "dryRun"} {
		a := s.Do(http.MethodPost, "/operator/v1/listings/import?"+query, listingLine("x", ""))
		require.Equal(t, http.StatusBadRequest, a.Status, "a misspelled dry run must not import")
	}
	require.NotContains(t, s.export(), `"x"`)
}
