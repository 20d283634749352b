package history_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
)

func TestHistoryOfAListing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		s.catalog.set("maple-market", true)
		s.record(
			`{"slug":"maple-market","checkedAt":"2026-11-10T04:00:00.5-05:00","checkType":"review","outcome":"verified",`+
				`"sourceUrls":["https://maple.example/faq?a=1&b=2"],"facts":`+apitest.WholeFacts(`{"remote":true,"languages":["en","fr"],`+
				`"countryEligibility":[{"country":"CA","status":"eligible","includedRegions":["qc"],`+
				`"sourceUrls":["https://maple.example/who"]}]}`)+
				`,"note":"Read the FAQ."}`,
			`{"slug":"maple-market","checkedAt":"2026-11-12T00:00:00Z","checkType":"application-link","outcome":"reachable"}`)
		a := s.get("/api/v1/opportunities/maple-market/history")
		got := servicetest.Read[api.EventList](a)
		require.Len(t, got.Data, 2)
		for _, e := range got.Data {
			require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, e.ID)
			a.Body = strings.Replace(a.Body, e.ID, "ID", 1)
		}
		require.Equal(t, `{"data":[`+
			`{"id":"ID","slug":"maple-market","checkedAt":"2026-11-12T00:00:00Z","checkType":"application-link",`+
			`"outcome":"reachable",`+
			`"sourceUrls":[],"facts":null,"note":""},`+
			`{"id":"ID","slug":"maple-market","checkedAt":"2026-11-10T09:00:00.5Z","checkType":"review","outcome":"verified",`+
			`"sourceUrls":["https://maple.example/faq?a=1&b=2","https://maple.example/who"],`+
			`"facts":{"countryEligibility":[{"country":"CA","status":"eligible",`+
			`"allRegions":null,"includedRegions":["CA-QC"],"excludedRegions":[],"sourceUrls":["https://maple.example/who"],`+
			`"note":""}],"remote":true,`+
			`"degreeRequired":null,"experienceRequired":null,"flexibleSchedule":null,"pay":null,"languages":["en","fr"],`+
			`"applicationStatus":"unknown","applicationUrl":null,"requirements":[],"riskIndicators":[]},"note":"Read the `+
			`FAQ."}],`+
			`"pagination":{"page":1,"limit":10,"total":2,"hasMore":false,"next":null},`+
			`"meta":{"version":"1","generatedAt":"2026-11-20T12:00:00Z","freshnessDays":14,"kind":"earning-platform",`+
			`"tier":"commercial"}}`, a.Body)
		require.Equal(t, "application/json", a.Header.Get("Content-Type"))
		require.Equal(t, "private, no-cache", a.Header.Get("Cache-Control"))

		first := servicetest.Read[api.EventList](s.Do(http.MethodGet,
			"/api/v1/opportunities/maple-market/history?limit=1", "", as(api.Developer)...))
		require.Equal(t, got.Data[:1], first.Data)
		next := strings.TrimPrefix(*first.Pagination.Next, servicetest.PublicURL)
		require.Equal(t, got.Data[1:], servicetest.Read[api.EventList](s.get(next)).Data)
		require.Contains(t, s.get("/api/v1/opportunities/maple-market/history?page=1000000&limit=100").Body,
			`"data":[],"pagination":{"page":1000000,"limit":100,"total":2,"hasMore":false,"next":null}`)

		head := s.Do(http.MethodHead, "/api/v1/opportunities/maple-market/history", "", as(api.Developer)...)
		require.Equal(t, http.StatusOK, head.Status)
		require.Empty(t, head.Body)
	})
}

func TestOrderOfRequestChecks(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("public", true)
		s.catalog.set("private", false)
		s.record(line("public", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified),
			line("private", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		for _, c := range []struct {
			tier api.Tier
			path string
			code problem.Code
		}{
			{api.Free, "unlisted/history?page=0", "invalid_parameter"},
			{api.Free, "public/history?country=CA", "unknown_parameter"},
			{api.Free, "public/history?page=1&page=1", "duplicate_parameter"},
			{api.Free, "public/history", "subscription_required"},
			{api.Free, "private/history", "subscription_required"},
			{api.Free, "unlisted/history", "subscription_required"},
			{api.Free, "Not%20An%20Id/history", "subscription_required"},
			{api.Developer, "Public/history", "not_found"},
			{api.Developer, "a%2Fb/history", "not_found"},
			{api.Developer, strings.Repeat("a", 81) + "/history", "not_found"},
			{api.Developer, "private/history", "not_found"},
			{api.Developer, "unlisted/history", "not_found"},
			{api.Developer, "public/history/", "not_found"},
			{api.Developer, "public/history?limit=101", "invalid_parameter"},
		} {
			s.Do(http.MethodGet, "/api/v1/opportunities/"+c.path, "", as(c.tier)...).RequireError(c.code)
		}
		needsPlan := s.Do(http.MethodGet, "/api/v1/opportunities/public/history", "",
			as(api.Free)...).RequireError("subscription_required")
		require.Contains(t, needsPlan.Message,
			"Get the Business plan at "+servicetest.PublicURL+"/account/plan, or ask the operator")
		require.Equal(t, s.get("/api/v1/opportunities/private/history").Body,
			s.get("/api/v1/opportunities/unlisted/history").Body)
		s.Do(http.MethodDelete, "/api/v1/opportunities/public/history", "").RequireError("method_not_allowed")
	})
}

func TestUnchangedHistoryIsNotModified(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		s.record(line("a", "2026-11-01T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		const path = "/api/v1/opportunities/a/history"
		tag := s.get(path).Header.Get("ETag")
		require.Regexp(t, `^W/"[0-9a-f]+"$`, tag)
		same := s.get(path+"?limit=10&page=1", "If-None-Match", tag)
		require.Equal(t, http.StatusNotModified, same.Status, "an equivalent query must match the tag")
		require.Empty(t, same.Body)
		for name, other := range map[string]servicetest.Response{
			"page":  s.get(path+"?page=2", "If-None-Match", tag),
			"limit": s.get(path+"?limit=9", "If-None-Match", tag),
			"tier":  s.Do(http.MethodGet, path, "", append(as(api.Developer), "If-None-Match", tag)...),
		} {
			require.Equal(t, http.StatusOK, other.Status, name)
		}
		s.record(line("a", "2026-11-02T00:00:00Z", api.LinkCheck, api.OutcomeReachable))
		require.Equal(t, http.StatusOK, s.get(path, "If-None-Match", tag).Status)
	})
}

func TestAppendReportsEveryInvalidLineAndRecordsNothing(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		good := line("a", "2026-11-01T00:00:00Z", api.FactualReview, api.OutcomeVerified)
		report := s.append(good, "", line("unlisted", "2026-11-01T00:00:00Z", api.FactualReview, api.OutcomeReachable),
			"{", `{"slug":"a","id":"x"}`,
			line("a", "2026-11-21T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		require.Equal(t, api.AppendReport{Rejected: []api.RejectedLine{
			{Line: 3, ID: "unlisted",
				Problems: apitest.Problems("outcome: must be one of verified, closed, needs-review; \"reachable\" is none",
					"slug: there is no such listing")},
			{Line: 4, Problems: apitest.Problems("must be one JSON object: unexpected end of JSON input")},
			{Line: 5, ID: "a", Problems: apitest.Problems("id: is not a known field")},
			{Line: 6, ID: "a", Problems: apitest.Problems("checkedAt: must not be in the future: the clock of the service " +
				"reads 2026-11-20T12:00:00Z")},
		}}, report)
		require.Empty(t, servicetest.Read[api.EventList](s.get("/api/v1/opportunities/a/history")).Data)

		require.Equal(t, api.AppendReport{Applied: true, Appended: 1, Duplicates: 1, Rejected: []api.RejectedLine{}},
			s.append(good, good))
		require.Equal(t, api.AppendReport{Applied: true, Duplicates: 1, Rejected: []api.RejectedLine{}}, s.append(good))
		require.Equal(t, api.AppendReport{Rejected: []api.RejectedLine{{Line: 1,
			Problems: apitest.Problems("the file is empty")}}}, s.append(""))
		require.Len(t, servicetest.Read[api.EventList](s.get("/api/v1/opportunities/a/history")).Data, 1)
	})
}

func TestAppendUpdatesListingsBeforeItRejectsUnknownOnes(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.change(func() { s.catalog.noPolls = true })
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			s.catalog.set(id, true)
		}
		s.record(line("e", "2026-11-01T00:00:00Z", api.FactualReview, api.OutcomeVerified))

		s.catalog.change(func() { s.catalog.failing = true })
		file := line("a", "2026-11-01T00:00:00Z", api.FactualReview, api.OutcomeVerified)
		s.record(file)
		a := s.Do(http.MethodPost, "/operator/v1/events/append",
			line("new", "2026-11-01T00:00:00Z", api.FactualReview, api.OutcomeVerified))
		a.RequireError("service_unavailable")
		require.Equal(t, "1", a.Header.Get("Retry-After"))
	})
}

func TestPublishedListingsFollowTheCatalogThroughOutages(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		status := func(id string) func() bool {
			return func() bool { return s.get("/api/v1/opportunities/"+id+"/history").Status == http.StatusOK }
		}
		s.catalog.set("a", true)
		storetest.Eventually(t, "a is published", status("a"))
		s.WaitReady()
		s.catalog.change(func() { s.catalog.failing = true })
		s.catalog.set("b", true)
		require.Equal(t, http.StatusOK, s.get("/readyz").Status, "readiness must not depend on the catalog")
		require.True(t, status("a")(), "readers must not depend on the catalog")
		s.catalog.change(func() { s.catalog.failing = false })
		storetest.Eventually(t, "b is published", status("b"))
		s.catalog.set("a", false)
		storetest.Eventually(t, "a is withdrawn", func() bool { return !status("a")() })
	})
}

func TestSummariesArePulledAfterChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		mark := ""
		pull := func(query string) []api.Summary {
			page := servicetest.Read[feed.Page[api.EncodedSummary]](s.get("/internal/v1/summaries" + query + mark))
			require.False(t, page.StartOver)
			mark = "&mark=" + page.Mark
			return apitest.Decoded(page.Changes)
		}
		require.Regexp(t, `^{"changes":\[\],"mark":"[0-9a-f]{16}\.0\."}$`, s.get("/internal/v1/summaries").Body)
		require.Empty(t, pull("?after=0&wait=1ms"))
		s.catalog.set("a", true)
		s.catalog.set("b", false)
		s.record(line("b", "2026-11-10T00:00:00Z", api.FactualReview, api.OutcomeVerified))

		waited := make(chan []api.Summary, 1)
		first := pull("?wait=25s")
		require.Len(t, first, 1)
		require.Equal(t, "b", first[0].Slug, "private listings need summaries too, because they may be published at any time")
		require.Equal(t, api.Verified, first[0].StatusAt(nil, now))
		go func() { waited <- pull("?after=1&wait=25s") }()
		s.record(line("a", "2026-11-02T00:00:00Z", api.LinkCheck, api.OutcomeClosed))
		second := <-waited
		require.Len(t, second, 1)
		require.Equal(t, "a", second[0].Slug)
		require.EqualValues(t, 2, second[0].Sequence)

		damaged := servicetest.Read[feed.Page[api.EncodedSummary]](s.get("/internal/v1/summaries?after=99" + mark))
		require.True(t, damaged.StartOver, "no event has that position")
	})
}

func TestAccess(t *testing.T) {
	s := start(t, schema.SQLite(t), newCatalog(t))
	servicetest.RequireAccess(t, peer.History, s.URL, s.Log.String)
	// a missing caller header is a fault of the gateway
	s.Do(http.MethodGet, "/api/v1/opportunities/a/history", "").RequireError("internal_error")
	s.Do(http.MethodPost, "/operator/v1/events/append", "", api.ActorHeader, "").RequireError("invalid_parameter")
}

func TestCheckVerbNeedsTheSchemaAndTheCatalog(t *testing.T) {
	c := newCatalog(t)
	settings := map[string]string{
		"OPPORTUNITY_DATABASE_URL": storetest.SQLite(t), "OPPORTUNITY_LOG_LEVEL": "ERROR",
		"OPPORTUNITY_PEER_TOKENS":   strings.Join(servicetest.Tokens(peer.History).Peers, ","),
		"OPPORTUNITY_CALLER_TOKENS": strings.Join(servicetest.Callers(peer.History).Tokens, ","),
		"OPPORTUNITY_PUBLIC_URL":    servicetest.PublicURL + "/", "OPPORTUNITY_CATALOG_URL": c.URL,
	}
	verb := func(name string) error {
		return history.Main(t.Context(), func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
			[]string{name})
	}
	require.ErrorContains(t, verb("check"), "OPPORTUNITY_PUBLIC_URL must be")
	settings["OPPORTUNITY_PUBLIC_URL"] = servicetest.PublicURL
	require.Error(t, verb("check"), "without a schema")
	require.NoError(t, verb("migrate"))
	require.NoError(t, verb("check"))
	c.Close()
	require.ErrorContains(t, verb("check"), c.Listener.Addr().String())
}

func TestCheckAheadOfTheClockIsNotShownLaterThanTheResponse(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		ahead := line("a", now.Add(20*time.Millisecond).Format(time.RFC3339Nano), api.FactualReview,
			api.OutcomeVerified)
		s.record(ahead)
		require.Equal(t, 1, s.append(ahead).Duplicates, "the event must be recorded as sent")
		list := servicetest.Read[api.EventList](s.get("/api/v1/opportunities/a/history"))
		require.Equal(t, list.Meta.GeneratedAt, list.Data[0].CheckedAt)
		require.Len(t, s.append(line("a", now.Add(1100*time.Millisecond).Format(time.RFC3339Nano), api.FactualReview,
			api.OutcomeVerified)).Rejected, 1)
	})
}
