package catalog_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

// onBoth runs a test with a service on each kind of database. It is for a few tests that together
// use every part of the service; what else differs between databases is tested beside the store.
func onBoth(t *testing.T, test func(t *testing.T, s *service)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, start(t, url)) })
}

// onSQLite runs a test with a service on SQLite, which starts faster than Postgres.
func onSQLite(t *testing.T, test func(t *testing.T, s *service)) {
	t.Parallel()
	test(t, start(t, schema.SQLite(t)))
}

// walk follows next from the first page to the last, like a consumer, and returns all records.
func (s *service) walk(tier api.Tier, path string) (all []api.Opportunity) {
	s.t.Helper()
	for {
		a := s.get(tier, path)
		page := servicetest.Read[api.OpportunityList](a)
		require.Equal(s.t, encode(s.t, page), a.Body, "want the bytes of encoding/json")
		all = append(all, page.Data...)
		if !page.Pagination.HasMore {
			require.Nil(s.t, page.Pagination.Next)
			require.Len(s.t, all, page.Pagination.Total)
			return all
		}
		require.Len(s.t, page.Data, page.Pagination.Limit)
		path = strings.TrimPrefix(*page.Pagination.Next, servicetest.PublicURL)
	}
}

func ids(all []api.Opportunity) []string {
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = o.ID
	}
	return out
}

func TestResponsesFollowTheSpecification(t *testing.T) {
	s := start(t, schema.SQLite(t))
	s.load(listingtest.Records(3, 60, startTime))

	t.Run("limit is reduced to the tier's page size", func(t *testing.T) {
		page := s.list(api.Developer, "/api/jobs?limit=100&country=ca&checked_after=2026-01-01").Pagination
		require.Equal(t, 50, page.Limit)
		page = s.list(api.Free, "/api/jobs?limit=100").Pagination
		require.Equal(t, api.Pagination{Page: 1, Limit: 10, Total: page.Total}, page)
	})
	t.Run("next has the requested path and the canonical filter", func(t *testing.T) {
		a := s.get(api.Commercial, "/api/jobs?limit=1&flexible=true&checked_after=2026-11-01&country=ca&page=1")
		page := servicetest.Read[api.OpportunityList](a).Pagination
		require.Equal(t, servicetest.PublicURL+"/api/jobs?country=CA&flexible=true&checked_after=2026-11-01T00%3A00%3A00Z"+
			"&page=2&limit=1", *page.Next)
		require.Equal(t, `<`+servicetest.PublicURL+`/api/v1/opportunities?country=CA&flexible=true&`+
			`checked_after=2026-11-01T00%3A00%3A00Z&page=1&limit=1>; rel="canonical"`,
			a.Header.Get("Link"))
		require.Empty(t, s.get(api.Commercial, "/api/v1/opportunities").Header.Get("Link"))
	})
	t.Run("detail and list show the same record", func(t *testing.T) {
		first := s.list(api.Commercial, "/api/jobs").Data[0]
		a := s.get(api.Commercial, "/api/v1/opportunities/"+first.ID)
		require.Equal(t, encode(t, api.OpportunityDetail{Data: first, Meta: api.NewMeta(api.Commercial, startTime)}),
			a.Body)
	})
}

func TestAccess(t *testing.T) {
	s := start(t, schema.SQLite(t))
	servicetest.RequireAccess(t, peer.Catalog, s.URL, s.Log.String)
}

func TestConditionalRequests(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := listingtest.Records(4, 40, startTime)
	s.load(records)
	request := func(path string, tier api.Tier, etag string) servicetest.Response {
		return s.get(tier, path, "If-None-Match", etag)
	}
	id := s.list(api.Free, "/api/jobs").Data[0].ID
	for _, path := range []string{"/api/jobs?country=ca", "/api/v1/opportunities", "/api/v1/opportunities/" + id} {
		first := s.get(api.Commercial, path)
		etag := first.Header.Get("ETag")
		require.True(t, strings.HasPrefix(etag, `W/"`), etag)
		require.Equal(t, "private, no-cache", first.Header.Get("Cache-Control"))
		require.Equal(t, []string{"Accept-Encoding", "Authorization"}, first.Header.Values("Vary"))

		again := request(path, api.Commercial, `"other", `+etag)
		require.Equal(t, http.StatusNotModified, again.Status)
		require.Empty(t, again.Body)
		require.Equal(t, etag, again.Header.Get("ETag"))
		require.Equal(t, http.StatusOK, request(path, api.Free, etag).Status, "want another ETag for another tier")
	}
	require.Equal(t, s.get(api.Commercial, "/api/jobs?country=ca").Header.Get("ETag"),
		s.get(api.Commercial, "/api/jobs?limit=10&page=1&country=CA").Header.Get("ETag"),
		"want the same ETag for two spellings of a query")
	require.NotEqual(t, s.get(api.Commercial, "/api/jobs").Header.Get("ETag"),
		s.get(api.Commercial, "/api/jobs?page=2").Header.Get("ETag"))
}

func TestPermalinksShowTheFreeSetWhole(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := listingtest.Records(5, 60, startTime)
	records[0].Entry.Visibility = listingfile.Withdrawn
	s.load(records)
	set := ids(s.walk(api.Free, "/api/jobs?limit=3"))
	require.NotEmpty(t, set)
	for _, r := range records {
		permalink := s.Do(http.MethodGet, "/internal/v1/public-records/"+r.Entry.ID, nil)
		if r.Entry.Visibility != listingfile.Published {
			permalink.RequireError("not_found")
			continue
		}
		public := servicetest.Read[api.PublicRecord](permalink)
		require.Equal(t, slices.Contains(set, r.Entry.ID), public.Free)
		require.Equal(t, "evt_"+r.Entry.ID, public.Events[0].ID)
		require.Contains(t, string(public.Record), `"id":"`+r.Entry.ID+`"`)
	}
}

// The clock of the test does not advance, so all responses have
// the same time and must be equal.
func TestCompressedResponsesEqualTheOthers(t *testing.T) {
	s := start(t, schema.SQLite(t))
	s.load(listingtest.Records(5, 120, startTime))
	request := func(path, accept string, headers ...string) servicetest.Response {
		return s.get(api.Commercial, path, append(headers, "Accept-Encoding", accept)...)
	}
	const list = "/api/v1/opportunities"
	for _, path := range []string{list + "?limit=100", "/api/jobs?limit=50&page=2",
		list + "/" + s.list(api.Commercial, list).Data[0].ID} {
		plain := request(path, "identity")
		for range 2 { // built, then cached
			a := request(path, "gzip", "Range", "bytes=0-9")
			require.Equal(t, http.StatusOK, a.Status, "ranges are not supported")
			require.Equal(t, "gzip", a.Header.Get("Content-Encoding"))
			require.Equal(t, strconv.Itoa(len(a.Body)), a.Header.Get("Content-Length"))
			require.Equal(t, []string{"Accept-Encoding", "Authorization"}, a.Header.Values("Vary"))
			require.Equal(t, plain.Header.Get("ETag"), a.Header.Get("ETag"))
			in, err := gzip.NewReader(strings.NewReader(a.Body))
			require.NoError(t, err)
			body, err := io.ReadAll(in)
			require.NoError(t, err)
			require.Equal(t, plain.Body, string(body), path)
		}
		unchanged := request(path, "gzip", "If-None-Match", plain.Header.Get("ETag"))
		require.Equal(t, http.StatusNotModified, unchanged.Status)
		require.Empty(t, unchanged.Header.Get("Content-Encoding"))
		require.Equal(t, []string{"Accept-Encoding", "Authorization"}, unchanged.Header.Values("Vary"))
	}
	require.Empty(t, request(list+"?limit=0", "gzip").Header.Get("Content-Encoding"), "of an error")
}

const changesPath = "/api/v1/changes"

func TestChangesFollowTheSpecification(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := listingtest.Records(3, 60, startTime)
	s.load(records)
	public := listingtest.Published(records, startTime)
	s.clock.Advance(3 * time.Second)
	var first api.ChangeList
	storetest.Eventually(t, "all changes are listed", func() bool {
		first = servicetest.Read[api.ChangeList](s.get(api.Commercial, changesPath+"?limit=100"))
		return len(first.Data) == len(public)
	})
	require.Nil(t, first.Pagination.Next)
	require.Equal(t, api.NewMeta(api.Commercial, s.clock.Now()), first.Meta)

	page := servicetest.Read[api.ChangeList](s.get(api.Developer, changesPath+"?limit=100"))
	require.Equal(t, 50, page.Pagination.Limit, "the limit of the tier")
	require.Equal(t, servicetest.PublicURL+changesPath+"?after="+page.Data[49].Cursor+"&limit=50",
		*page.Pagination.Next)
	rest := servicetest.Read[api.ChangeList](s.get(api.Developer,
		strings.TrimPrefix(*page.Pagination.Next, servicetest.PublicURL)))
	require.Equal(t, first.Data, append(page.Data, rest.Data...))
	require.Equal(t, first.Pagination.Cursor, rest.Pagination.Cursor)

	newest := s.get(api.Commercial, changesPath+"?after=now")
	require.Equal(t, api.ChangeList{
		Data: []api.RecordChange{}, Meta: first.Meta,
		Pagination: api.CursorPagination{Limit: 10, Cursor: first.Pagination.Cursor},
	}, servicetest.Read[api.ChangeList](newest))
	tag := newest.Header.Get("ETag")
	again := s.get(api.Commercial, changesPath+"?limit=10&after=now", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, again.Status)
	require.Equal(t, http.StatusOK, s.get(api.Developer, changesPath+"?after=now", "If-None-Match", tag).Status)

	path := changesPath + "?after=" + first.Pagination.Cursor
	tag = s.get(api.Commercial, path).Header.Get("ETag")
	require.Equal(t, 1, s.curate("withdraw", `{"ids":["`+public[0].ID+`"]}`).Updated)
	require.Equal(t, http.StatusNotModified, s.get(api.Commercial, path, "If-None-Match", tag).Status,
		"other replicas may not have loaded it")
	s.clock.Advance(3 * time.Second)
	storetest.Eventually(t, "the change is loaded", func() bool {
		return s.get(api.Commercial, path, "If-None-Match", tag).Status == http.StatusOK
	})
	changed := servicetest.Read[api.ChangeList](s.get(api.Commercial, path)).Data
	require.Len(t, changed, 1)
	require.Equal(t, api.RecordChange{ID: public[0].ID, Change: api.ChangeWithdrawn, At: startTime.Add(3 * time.Second),
		Cursor: changed[0].Cursor}, changed[0])

	s.get(api.Free, changesPath).RequireError(problem.SubscriptionRequired)
}

func TestHistoryOutage(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.history.setDown(true)
		records := listingtest.Records(6, 20, startTime)
		for i := range records {
			records[i].Summary = nil
		}
		s.load(records)
		at := startTime.Add(-time.Hour)
		for i := range records {
			records[i].Summary = &api.Summary{
				Slug: records[i].Entry.ID, LastCheckedAt: &at, FirstCheckedAt: &at, ReviewCount: 1, HistoryCount: 1,
				LastOutcome: api.OutcomeVerified,
			}
			s.history.add(*records[i].Summary)
		}
		s.history.add(api.Summary{Slug: "not-imported-yet", LastCheckedAt: &at, ReviewCount: 1,
			LastOutcome: api.OutcomeClosed})
		s.history.setDown(false)
		s.awaitRecords(records)

		s.curate("import", listingLine("not-imported-yet", `,"visibility":"published"`))
		storetest.Eventually(t, "a summary received before its listing applies", func() bool {
			a := s.get(api.Commercial, "/api/v1/opportunities/not-imported-yet")
			return a.Status == http.StatusOK &&
				servicetest.Read[api.OpportunityDetail](a).Data.Verification.Status == api.NeedsReview
		})
	})
}
