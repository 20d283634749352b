package catalog_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/oracle"
)

// onEachDatabase runs a test with each supported database.
func onEachDatabase(t *testing.T, test func(t *testing.T, s *service)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, start(t, url)) })
}

var filterValues = func() map[string][]string {
	values := map[string][]string{
		"country": {"CA", "us", "ZZ"}, "province": {"ON", "ca-qc"}, "verified": {"true", "false"},
		"category": {"online", "sell", "local", "host"}, "checked_after": {"2026-11-10", "2026-11-06T11:00:00.123456+01:00"},
	}
	for _, b := range api.BoolFacts {
		values[b.Param] = []string{"true", "false"}
	}
	return values
}()

// filters returns n filters: every single condition, then random combinations.
func filters(n int) []url.Values {
	all := []url.Values{{}}
	names := slices.Sorted(maps.Keys(filterValues))
	for _, name := range names {
		for _, v := range filterValues[name] {
			all = append(all, url.Values{name: {v}})
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for len(all) < n {
		f := url.Values{}
		for _, name := range names {
			if random.IntN(4) == 0 {
				f.Set(name, filterValues[name][random.IntN(len(filterValues[name]))])
			}
		}
		all = append(all, f)
	}
	for _, f := range all {
		if f.Has("province") {
			f.Set("country", "ca")
		}
	}
	return all
}

// walk follows next from the first page to the last, like a consumer, and returns all records.
func (s *service) walk(tier api.Tier, path string) (all []api.Opportunity) {
	s.t.Helper()
	for {
		a := s.get(tier, path)
		require.Equal(s.t, http.StatusOK, a.status, "%s: %s", path, a.body)
		page := decode[api.OpportunityList](s.t, a.body)
		require.Equal(s.t, string(encode(s.t, page)), string(a.body), "want the bytes of encoding/json")
		all = append(all, page.Data...)
		if !page.Pagination.HasMore {
			require.Nil(s.t, page.Pagination.Next)
			require.Len(s.t, all, page.Pagination.Total)
			return all
		}
		require.Len(s.t, page.Data, page.Pagination.Limit)
		path = strings.TrimPrefix(*page.Pagination.Next, public)
	}
}

// Lists are served from memory, so one database is enough.
func TestPagesOfEveryFilterMatchTheOracle(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := oracle.Records(21, 160, startTime)
	s.load(records)
	all := oracle.Published(records, startTime)
	for i, f := range filters(250) {
		tier := []api.Tier{api.Free, api.Developer, api.Commercial}[i%3]
		path := "/api/v1/opportunities"
		if i%2 == 0 {
			path = "/api/jobs"
		}
		want := oracle.List(all, tier, f)
		f.Set("limit", strconv.Itoa(7+i%20))
		got := s.walk(tier, path+"?"+f.Encode())
		require.Equal(t, ids(want), ids(got), "%s %s", tier, f.Encode())
		require.Equal(t, string(encode(t, want)), string(encode(t, got)))
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
	s.load(oracle.Records(3, 60, startTime))

	t.Run("limit is reduced to the tier's page size", func(t *testing.T) {
		page := s.list(api.Developer, "/api/jobs?limit=100&country=ca&checked_after=2026-01-01").Pagination
		require.Equal(t, 50, page.Limit)
		page = s.list(api.Free, "/api/jobs?limit=100").Pagination
		require.Equal(t, api.Pagination{Page: 1, Limit: 10, Total: page.Total}, page)
	})
	t.Run("next has the requested path and the canonical filter", func(t *testing.T) {
		a := s.get(api.Commercial, "/api/jobs?limit=1&flexible=true&checked_after=2026-11-01&country=ca&page=1")
		page := decode[api.OpportunityList](t, a.body).Pagination
		require.Equal(t, public+"/api/jobs?country=CA&flexible=true&checked_after=2026-11-01T00%3A00%3A00Z&page=2&limit=1", *page.Next)
		require.Equal(t, `<`+public+`/api/v1/opportunities?country=CA&flexible=true&checked_after=2026-11-01T00%3A00%3A00Z&page=1&limit=1>; rel="canonical"`,
			a.header.Get("Link"))
		require.Empty(t, s.get(api.Commercial, "/api/v1/opportunities").header.Get("Link"))
	})
	t.Run("meta has the time and the tier", func(t *testing.T) {
		require.Equal(t, api.NewMeta(api.Developer, startTime), s.list(api.Developer, "/api/jobs").Meta)
	})
	t.Run("a page past the end is empty", func(t *testing.T) {
		page := s.list(api.Commercial, "/api/jobs?page=1000000")
		require.Equal(t, 60, page.Pagination.Total)
		require.NotNil(t, page.Data)
		require.Empty(t, page.Data)
	})
	t.Run("detail and list show the same record", func(t *testing.T) {
		first := s.list(api.Commercial, "/api/jobs").Data[0]
		a := s.get(api.Commercial, "/api/v1/opportunities/"+first.ID)
		require.Equal(t, string(encode(t, api.OpportunityDetail{Data: first, Meta: api.NewMeta(api.Commercial, startTime)})), string(a.body))
	})
	t.Run("HEAD is GET without a body", func(t *testing.T) {
		get := s.get(api.Commercial, "/api/jobs")
		head := s.do(http.MethodHead, "/api/jobs", "", callerHeader(api.Commercial))
		require.Equal(t, http.StatusOK, head.status)
		require.Empty(t, head.body)
		require.Equal(t, strconv.Itoa(len(get.body)), head.header.Get("Content-Length"))
		require.Equal(t, get.header.Get("ETag"), head.header.Get("ETag"))
	})
	for _, c := range []struct {
		path   string
		status int
		code   string
	}{
		{"/api/jobs?colour=red", 400, "unknown_parameter"},
		{"/api/jobs?remote=yes", 400, "invalid_parameter"},
		{"/api/jobs?remote=", 400, "invalid_parameter"},
		{"/api/jobs?page=1&page=1", 400, "duplicate_parameter"},
		{"/api/jobs?province=ON", 400, "invalid_parameter"},
		{"/api/jobs?limit=101", 400, "invalid_parameter"},
		{"/api/v1/opportunities/maple-0?page=1", 400, "unknown_parameter"},
		{"/api/v1/opportunities/unknown", 404, "not_found"},
		{"/api/v1/opportunities/Not%20An%20Id", 404, "not_found"},
		{"/api/v1/opportunities/a%2Fb", 404, "not_found"},
		{"/api/v1/opportunities/", 404, "not_found"},
		{"/api/v1//opportunities", 404, "not_found"},
		{"/api/jobs/", 404, "not_found"},
	} {
		t.Run(c.path, func(t *testing.T) {
			a := s.get(api.Commercial, c.path)
			require.Equal(t, c.status, a.status)
			e := decode[api.Error](t, a.body)
			require.Equal(t, c.code, e.Error.Code)
			require.Equal(t, public+"/docs/errors#"+c.code, e.Documentation)
		})
	}
	t.Run("requests without the internal token are rejected", func(t *testing.T) {
		for _, path := range []string{"/api/jobs", "/internal/v1/listings?after=0", "/operator/v1/listings/export"} {
			header := callerHeader(api.Commercial)
			header.Set("Authorization", "Bearer guess")
			require.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, path, "", header).status)
		}
	})
}

func TestConditionalRequests(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := oracle.Records(4, 40, startTime)
	s.load(records)
	request := func(path string, tier api.Tier, etag string) response {
		header := callerHeader(tier)
		header.Set("If-None-Match", etag)
		return s.do(http.MethodGet, path, "", header)
	}
	id := s.list(api.Free, "/api/jobs").Data[0].ID
	for _, path := range []string{"/api/jobs?country=ca", "/api/v1/opportunities", "/api/v1/opportunities/" + id} {
		first := s.get(api.Commercial, path)
		etag := first.header.Get("ETag")
		require.True(t, strings.HasPrefix(etag, `W/"`), etag)
		require.Equal(t, "private, no-cache", first.header.Get("Cache-Control"))
		require.Equal(t, []string{"Accept-Encoding", "Authorization"}, first.header.Values("Vary"))

		again := request(path, api.Commercial, `"other", `+etag)
		require.Equal(t, http.StatusNotModified, again.status)
		require.Empty(t, again.body)
		require.Equal(t, etag, again.header.Get("ETag"))
		require.Equal(t, http.StatusOK, request(path, api.Free, etag).status, "want another ETag for another tier")
	}
	require.Equal(t, s.get(api.Commercial, "/api/jobs?country=ca").header.Get("ETag"),
		s.get(api.Commercial, "/api/jobs?limit=10&page=1&country=CA").header.Get("ETag"), "want the same ETag for two spellings of a query")
	require.NotEqual(t, s.get(api.Commercial, "/api/jobs").header.Get("ETag"), s.get(api.Commercial, "/api/jobs?page=2").header.Get("ETag"))

	// Both the clock and changed data change the ETag.
	list := s.get(api.Commercial, "/api/jobs").header.Get("ETag")
	s.clock.set(startTime.Add(api.FreshnessWindow))
	storetest.Eventually(t, "the list has a new ETag at the new time", func() bool {
		return request("/api/jobs", api.Commercial, list).status == http.StatusOK
	})
	list = s.get(api.Commercial, "/api/jobs").header.Get("ETag")
	require.Equal(t, 1, s.curate("withdraw", fmt.Sprintf(`{"ids":[%q]}`, id)).Updated)
	storetest.Eventually(t, "the list has a new ETag after the withdrawal", func() bool { return request("/api/jobs", api.Commercial, list).status == http.StatusOK })
}

func TestVerifiedTurnsStaleAfterFreshUntil(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := oracle.Records(8, 30, startTime)
	s.load(records)
	for _, r := range records {
		o := r.Public(startTime)
		if o.Verification.Status != api.Verified {
			continue
		}
		for at, want := range map[time.Time]api.VerificationStatus{
			*o.Verification.FreshUntil:                      api.Verified,
			o.Verification.FreshUntil.Add(time.Microsecond): api.Stale,
		} {
			s.clock.set(at)
			storetest.Eventually(t, "the database is polled at the new time", func() bool {
				return s.get(api.Commercial, "/api/jobs").status == http.StatusOK
			})
			got := decode[api.OpportunityDetail](t, s.get(api.Commercial, "/api/v1/opportunities/"+o.ID).body)
			require.Equal(t, want, got.Data.Verification.Status)
			require.Equal(t, at, got.Meta.GeneratedAt)
			require.Equal(t, ids(oracle.List(oracle.Published(records, at), api.Commercial, url.Values{"verified": {"true"}})),
				ids(s.walk(api.Commercial, "/api/jobs?verified=true")))
		}
	}
}

func TestFreeTierSeesTheSameSetInEveryFilter(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := oracle.Records(5, 200, startTime)
	s.load(records)
	set := ids(oracle.Free(oracle.Published(records, startTime)))
	require.Len(t, set, 10)
	require.Equal(t, set, ids(s.walk(api.Free, "/api/jobs?limit=3")))
	for _, r := range records {
		want := http.StatusNotFound
		if slices.Contains(set, r.Entry.ID) {
			want = http.StatusOK
		}
		require.Equal(t, want, s.get(api.Free, "/api/v1/opportunities/"+r.Entry.ID).status)
	}
	for _, f := range filters(100) {
		for _, id := range ids(s.walk(api.Free, "/api/jobs?"+f.Encode())) {
			require.Contains(t, set, id, f.Encode())
		}
	}
}
