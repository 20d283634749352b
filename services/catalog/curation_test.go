package catalog_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

func TestImportPublishAndExportOfRealPlatforms(t *testing.T) {
	file, err := os.ReadFile("testdata/platforms.jsonl")
	require.NoError(t, err)
	onBoth(t, func(t *testing.T, s *service) {
		report := s.curate("import", string(file))
		require.Equal(t, api.ImportReport{Applied: true, Created: 592, Rejected: []api.RejectedLine{}}, report)
		require.Zero(t, s.list(api.Commercial, "/api/jobs").Pagination.Total)

		require.Equal(t, 592, s.curate("publish", `{"all":true}`).Updated)
		storetest.Eventually(t, "all are listed", func() bool {
			return s.list(api.Commercial, "/api/jobs").Pagination.Total == 592
		})
		listed := s.walk(api.Commercial, "/api/v1/opportunities?limit=100")
		require.IsIncreasing(t, ids(listed), "unreviewed records must be ordered by id")
		for _, o := range listed {
			require.Equal(t, api.Unverified, o.Verification.Status)
			require.Equal(t, startTime, *o.PublishedAt)
		}
		require.Empty(t, s.list(api.Free, "/api/jobs").Data, "unverified records must not be in the free set")

		exported := s.exported()
		for name, again := range map[string]string{"export": exported, "original": string(file)} {
			require.Equal(t, api.ImportReport{Applied: true, Unchanged: 592, Rejected: []api.RejectedLine{}},
				s.curate("import", again), name)
			require.Equal(t, exported, s.exported(), "want the same bytes")
		}
		require.Equal(t, api.ImportReport{Applied: true, Rejected: []api.RejectedLine{}},
			s.curate("publish", `{"all":true}`), "nothing left to publish")
	})
}

const minimalListing = `{"id":"%","company":{"name":"Acme","website":"https://acme.example"},` +
	`"applicationUrl":"https://acme.example/a",` +
	`"category":"online","summary":"Work.","overview":"","startingCost":"","workModel":"",` +
	`"sources":[{"url":"https://acme.example/about","checkedAt":null}]`

func listingLine(id, more string) string {
	return strings.Replace(minimalListing, "%", id, 1) + more + "}\n"
}

func TestImportWithARejectedLineChangesNothing(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		report := s.curate("import", listingLine("good", "")+listingLine("bad",
			`,"kind":"earning-platform"`)+"\n"+listingLine("good", ""))
		require.False(t, report.Applied)
		require.Equal(t, []api.RejectedLine{
			{Line: 2, ID: "bad", Problems: apitest.Problems("kind: is not a known field")},
			{Line: 4, ID: "good", Problems: apitest.Problems("id: is on line 1 already")},
		}, report.Rejected)
		require.Empty(t, s.export())
	})
}

// Package feed tests the protocol.
func TestListingFeedFollowsPublication(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		position := "after=0"
		pull := func() []api.ListingState {
			page := servicetest.Read[feed.Page[api.ListingState]](s.Do(http.MethodGet,
				"/internal/v1/listings?wait=25s&"+position, nil))
			position = fmt.Sprintf("after=%d&mark=%s", page.Changes[len(page.Changes)-1].Sequence, page.Mark)
			return page.Changes
		}
		s.curate("import", listingLine("a", "")+listingLine("b", `,"visibility":"published"`))
		states := pull()
		require.Len(t, states, 2)
		require.Equal(t, api.ListingState{Sequence: states[0].Sequence, ID: "a",
			ApplicationURL: "https://acme.example/a",
			Pages:          []string{"https://acme.example/a", "https://acme.example", "https://acme.example/about"}},
			states[0])
		require.True(t, states[1].Published)
		waiting := make(chan []api.ListingState)
		go func() { waiting <- pull() }()
		s.curate("withdraw", `{"ids":["b"]}`)
		later := <-waiting
		require.Len(t, later, 1)
		require.Equal(t, "b", later[0].ID)
		require.False(t, later[0].Published)
	})
}

func TestAmbiguousOperatorRequestsAreRejected(t *testing.T) {
	s := start(t, schema.SQLite(t))
	for path, bodies := range map[string][]string{
		"publish":  {"", "{}", "[]", `{"ids":[]}`, `{"ids":["a"],"all":true}`, `{"id":"a"}`},
		"withdraw": {"", "{}", `{"all":true}`},
	} {
		for _, body := range bodies {
			a := s.Do(http.MethodPost, "/operator/v1/listings/"+path, body)
			require.Equal(t, http.StatusBadRequest, a.Status, "%s %s", path, body)
		}
	}
	anonymous := http.Header{"Authorization": {"Bearer " + servicetest.Token(peer.Gateway)}}
	a := servicetest.Send(t, http.MethodPost, s.URL+"/operator/v1/listings/import", listingLine("a", ""), anonymous)
	require.Equal(t, http.StatusBadRequest, a.Status, "a request without an actor must be rejected")
	require.Empty(t, s.export())
}
