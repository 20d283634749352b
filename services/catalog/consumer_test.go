package catalog_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
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
