package catalog_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/service/servicetest"
)

func (s *service) preview(file string) api.ImportReport {
	s.t.Helper()
	return servicetest.Read[api.ImportReport](s.Do(http.MethodPost, "/operator/v1/listings/import?dryRun=true", file))
}

// Package store tests that a dry run writes nothing and counts what the import does.
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
