package catalog_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
)

// edit sends an edit of a listing with the entity tag.
func (s *service) edit(actor, id, etag, body string) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodPut, "/operator/v1/records/"+id, body, api.ActorHeader, actor, "If-Match", etag)
}

func TestEditNeedsTheCurrentVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published","curation":{"contact":"jo@x.example","notes":""}`))
		shown := s.operate("ann", "GET", "records/x", "")
		etag := shown.Header.Get("ETag")
		detail := servicetest.Read[api.ListingDetail](shown)
		require.Equal(t, `"`+detail.Version+`"`, etag)
		changed := strings.Replace(string(detail.Listing), `"startingCost":""`, `"startingCost":"10 CAD"`, 1)

		var all sync.WaitGroup
		replies := make([]servicetest.Response, 6)
		for i := range replies {
			body := strings.Replace(changed, `"summary":"Work."`, fmt.Sprintf(`"summary":"Work %d."`, i), 1)
			all.Go(func() { replies[i] = s.edit("ann", "x", etag, body) })
		}
		all.Wait()
		applied := 0
		for _, reply := range replies {
			report := decode[api.EditReport](t, reply)
			if reply.Status == http.StatusOK {
				applied++
				require.True(t, report.Applied)
				require.Equal(t, []string{"summary", "startingCost"}, report.Fields)
				continue
			}
			require.Equal(t, http.StatusPreconditionFailed, reply.Status, reply.Body)
			require.False(t, report.Applied)
			require.Contains(t, string(report.Current.Listing), "10 CAD")
			require.Equal(t, `"`+report.Current.Version+`"`, reply.Header.Get("ETag"))
		}
		require.Equal(t, 1, applied, "only one of several edits of one version can succeed")

		shown = s.operate("ann", "GET", "records/x", "")
		etag = shown.Header.Get("ETag")
		same := s.edit("ann", "x", etag, string(servicetest.Read[api.ListingDetail](shown).Listing))
		require.Equal(t, 200, same.Status)
		require.Empty(t, servicetest.Read[api.EditReport](same).Fields)
		require.Equal(t, etag, same.Header.Get("ETag"))

		for change, problem := range map[[2]string]string{
			{`"id":"x"`, `"id":"y"`}:                                      "id: must not change",
			{`"visibility":"published"`, `"visibility":"private"`}:        "visibility: must be published or left out",
			{`"publishedAt":"2026`, `"publishedAt":"2025`}:                "publishedAt: must not change",
			{`"category":"online"`, `"category":"fun"`}:                   "category: must be one of",
			{`{"url":"https://acme.example/about","checkedAt":null}`, ``}: "sources",
		} {
			got := s.edit("ann", "x", etag, strings.Replace(changed, change[0], change[1], 1))
			require.Equal(t, 200, got.Status, got.Body)
			report := servicetest.Read[api.EditReport](got)
			require.False(t, report.Applied)
			require.Contains(t, fmt.Sprint(report.Problems), problem)
		}
		require.Equal(t, 400, s.operate("ann", "PUT", "records/x", changed).Status, "an edit without If-Match")
		require.Equal(t, 400, s.edit("ann", "x", etag, "").Status)
		require.Equal(t, 400, s.edit("ann", "x", etag, `{"format":"opportunity-listings","version":1}`).Status,
			"want a listing")
		require.Equal(t, 404, s.edit("ann", "y", etag, strings.Replace(changed, `"id":"x"`, `"id":"y"`, 1)).Status)
		require.Equal(t, etag, s.operate("ann", "GET", "records/x", "").Header.Get("ETag"))
	})
}

func TestDryRunOfAnEditShowsItsConsequences(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published"`))
		s.verify("ann", "x", "")
		s.clock.Advance(time.Minute)
		shown := s.operate("ann", "GET", "records/x", "")
		etag := shown.Header.Get("ETag")
		edited := func(query string, replacements ...string) api.EditReport {
			t.Helper()
			got := s.edit("ann", "x"+query, etag, strings.NewReplacer(replacements...).
				Replace(string(servicetest.Read[api.ListingDetail](shown).Listing)))
			require.Equal(t, 200, got.Status, got.Body)
			return servicetest.Read[api.EditReport](got)
		}
		changes := []string{`"startingCost":""`, `"startingCost":"10 CAD"`, `"summary":"Work."`, `"summary":"Other work."`}

		report := edited("?dryRun=true", changes...)
		require.False(t, report.Applied)
		require.Equal(t, []string{"summary", "startingCost"}, report.Fields)
		require.Equal(t, []string{"startingCost"}, report.Material)
		require.True(t, report.Change.NeedsReview)
		require.Equal(t, `"10 CAD"`, string(report.Change.Fields[0].New))
		require.Equal(t, etag, s.operate("ann", "GET", "records/x", "").Header.Get("ETag"), "a dry run changed the listing")
		require.Equal(t, 400, s.edit("ann", "x?dryRun=yes", etag, "{}").Status, "a misspelled dry run must not edit")

		copied := edited("?dryRun=true", changes[2:]...)
		require.Empty(t, copied.Material)
		require.False(t, copied.Change.NeedsReview)
		done := edited("", changes...)
		require.True(t, done.Applied)
		require.Equal(t, report.Change, done.Change)
		require.Equal(t, api.NeedsReview, s.sheetFor("ann", "x").Status)
	})
}

func TestCandidatesShowWhatIsMissingAndDuplicates(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		named := func(id, name, site, more string) string {
			return strings.NewReplacer(`"Acme"`, `"`+name+`"`, "https://acme.example\"}",
				site+`"}`).Replace(listingLine(id, more))
		}
		s.curate("import", named("a", "Maple Scribe Inc.", "https://www.maple.example", "")+
			named("b", "maple scribe", "https://other.example", `,"visibility":"published"`)+
			named("c", "Else", "https://maple.example/x", "")+named("d", "Fourth", "https://fourth.example", ""))
		list := operated[api.CandidateList](s, 200, "ann", "GET", "reviews/candidates", "")
		require.Len(t, list.Candidates, 3)
		require.Equal(t, []api.Duplicate{{ID: "b", Visibility: "published", By: "name"},
			{ID: "c", Visibility: "private", By: "host"}}, list.Candidates[0].Duplicates)
		require.Equal(t, []string{"overview", "startingCost", "workModel", "facts.countryEligibility",
			"facts.applicationStatus"}, list.Candidates[0].Missing)
		require.Empty(t, list.Candidates[2].Duplicates)
		require.False(t, list.Candidates[0].Reviewed)
		page := operated[api.CandidateList](s, 200, "ann", "GET", "reviews/candidates?limit=1&after=a", "")
		require.Equal(t, "c", page.Candidates[0].ID)
		require.Equal(t, "c", page.Next)
		require.Len(t, operated[api.CandidateList](s, 200, "ann", "GET", "reviews/candidates?host=maple.example",
			"").Candidates, 2)

		s.verify("ann", "a", "")
		list = operated[api.CandidateList](s, 200, "ann", "GET", "reviews/candidates", "")
		require.True(t, list.Candidates[0].Reviewed, "a first review does not publish")
		require.Equal(t, "private", s.sheetFor("ann", "a").Visibility)
	})
}

func TestImportIsBoundToTheFileOfTheDryRun(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		file := listingLine("x", "")
		preview := s.preview(file)
		require.Len(t, preview.SHA256, 64)
		for _, c := range []struct{ query, file string }{{preview.SHA256, file + "\n"}, {strings.Repeat("0", 64), file},
			{"x", file}} {
			a := s.operate("ann", "POST", "listings/import?sha256="+c.query, c.file)
			require.Equal(t, 400, a.Status, c.query)
			require.Contains(t, a.Body, "sha256")
		}
		require.Empty(t, s.export())
		report := operated[api.ImportReport](s, 200, "ann", "POST", "listings/import?sha256="+preview.SHA256, file)
		require.Equal(t, 1, report.Created)
		require.Equal(t, preview.SHA256, s.preview(file).SHA256)
	})
}

func TestChangesSayWhoDidWhat(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", "")+listingLine("y", ""))
		s.clock.Set(startTime.Add(time.Hour))
		operated[api.ImportReport](s, 200, "ben", "POST", "listings/publish", `{"ids":["x"]}`)
		operated[api.ImportReport](s, 200, "ben", "POST", "listings/withdraw", `{"ids":["x"],"reason":"site closed"}`)
		require.Equal(t, 400, s.operate("ben", "POST", "listings/publish", `{"ids":["x"],"reason":"r"}`).Status)
		list := func(query string) (acts []string, next int64) {
			got := operated[api.ListingActList](s, 200, "ann", "GET", "changes"+query, "")
			for _, a := range got.Acts {
				acts = append(acts, strings.TrimSpace(a.Actor+" "+a.Action+" "+a.Listing+" "+a.Reason))
			}
			return acts, got.Next
		}
		all, _ := list("")
		require.Equal(t, []string{"ben withdrawn x site closed", "ben published x", servicetest.Actor + " imported y",
			servicetest.Actor + " imported x"}, all)
		first, next := list("?limit=3")
		require.Equal(t, all[:3], first)
		rest, _ := list(fmt.Sprintf("?limit=3&before=%d", next))
		require.Equal(t, all[3:], rest)
		for query, want := range map[string]int{
			"?actor=ben": 2, "?listing=x": 3, "?action=imported": 2, "?since=2026-11-20T11:00:00Z": 2,
			"?until=2026-11-20T11:00:00Z": 2, "?until=2026-11-20T10:00:00Z": 0, "?actor=ann": 0,
		} {
			got, _ := list(query)
			require.Len(t, got, want, query)
		}
		for _, wrong := range []string{"?since=now", "?until=now", "?action=deleted", "?before=-1", "?listing=X",
			"?actor=%ff", "?x=1"} {
			require.Equal(t, 400, s.operate("ann", "GET", "changes"+wrong, "").Status, wrong)
		}
		detail := operated[api.ListingDetail](s, 200, "ann", "GET", "records/x", "")
		require.Equal(t, "site closed", detail.Changes[0].Reason)
		var listed struct{ Visibility string }
		require.NoError(t, json.Unmarshal(detail.Listing, &listed))
		require.Equal(t, "withdrawn", listed.Visibility)
	})
}
