package history_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/history"
	"opportunity.internal/services/history/internal/linkcheck"
)

// pageSite is a site whose pages tests change.
type pageSite struct {
	*httptest.Server

	mu       sync.Mutex
	pages    map[string]http.HandlerFunc
	requests map[string]int
}

func newPageSite(t testing.TB) *pageSite {
	t.Helper()
	s := &pageSite{pages: map[string]http.HandlerFunc{}, requests: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests[r.URL.Path]++
		page := s.pages[r.URL.Path]
		s.mu.Unlock()
		if page == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		page(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *pageSite) port() uint16 { return uint16(s.Listener.Addr().(*net.TCPAddr).Port) }

func (s *pageSite) set(path string, page http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = page
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// linkConfig returns the config of a run of the link checker at a time.
func linkConfig(database string, site *pageSite, at time.Time) history.Config {
	cfg := config(database, "http://127.0.0.1:1")
	cfg.Links = linkcheck.Config{
		Gap: time.Nanosecond, Concurrency: 16, Timeout: 20 * time.Second, Ports: []uint16{site.port()},
		AllowedNetworks: []string{"127.0.0.0/8"}, TextDays: 400,
	}
	cfg.Now = func() time.Time { return at }
	return cfg
}

// readPages makes a run of the link checker at a time.
func readPages(t testing.TB, database string, site *pageSite, at time.Time) history.LinkReport {
	t.Helper()
	report, err := history.CheckLinks(t.Context(), linkConfig(database, site, at))
	require.NoError(t, err)
	return report
}

const payText = "<p>About our marketplace for crafts.</p><p>Sellers earn $20 per hour on average. Payment is " +
	"weekly.</p>" +
	"<p>Open a shop, list your crafts, and ship them to buyers in Canada and abroad. You set your prices. We keep a " +
	"share of each sale, " +
	"and show it before you confirm. Questions? Write to our team; people answer within two working days.</p>"

// quotedLine returns a verified review of slug with a quote from a page.
func quotedLine(slug, page string, at time.Time) string {
	e := apitest.Verified(slug, at)
	e.SourceURLs = []string{page}
	quote, err := json.Marshal(api.Quote{Fact: "remote", SourceURL: page,
		Exact: "Sellers earn $20 per hour on average.", Prefix: "About our marketplace for crafts. ",
		Suffix: " Payment is weekly."})
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(apitest.Line(e), "}") + `,"evidence":{"quotes":[` + string(quote) +
		`],"gone":[],"unopened":[]}}`
}

func TestCitedPagesAreReadEveryDay(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, database string) {
		s := start(t, database, newCatalog(t))
		site := newPageSite(t)
		site.set("/apply", text(payText))
		kinds := map[string]struct {
			tomorrow http.HandlerFunc
			want     api.Finding
		}{
			"unchanged": {text("<nav>New menu</nav>" + strings.ReplaceAll(payText, " ", "\n  ")), api.QuotePresent},
			"pay":       {text(strings.ReplaceAll(payText, "$20", "$18")), api.QuoteMissing},
			"moved":     {text("<p>Sellers earn $20 per hour on average.</p><p>Elsewhere.</p>"), api.QuoteMoved},
			"gate":      {text("<h1>Just a moment...</h1><p>Verify you are human</p>"), api.QuoteUnknown},
		}
		for name := range kinds {
			site.set("/"+name, text(payText))
			s.catalog.list(name, true, site.URL+"/apply")
			s.record(quotedLine(name, site.URL+"/"+name, now.Add(-time.Hour)))
		}
		require.NotContains(t, s.get("/api/v1/opportunities/pay/history").Body, "$20", "quotes are private")
		report := readPages(t, database, site, now)
		require.Contains(t, report.String(), "; read 8 pages: ", "each page, and the application page with each link")
		require.Contains(t, report.String(), "quotes: 4 present, 0 moved, 0 missing, 0 unknown")
		for name, k := range kinds {
			site.set("/"+name, k.tomorrow)
		}
		require.NotContains(t, readPages(t, database, site, now.Add(time.Minute)).String(), "read",
			"nothing is due")
		tomorrow := now.Add(25 * time.Hour)
		report = readPages(t, database, site, tomorrow)
		want := map[api.Finding]int{}
		for name, k := range kinds {
			want[k.want]++
			got := s.reviewHistory(name).Readings
			require.Len(t, got, 1, name)
			require.Equal(t, k.want, got[0].Finding, "%s: %s", name, got[0].Note)
			require.Equal(t, tomorrow, got[0].ReadAt)
		}
		require.Equal(t, want, report.Read.Quotes)
		require.Equal(t, api.ListingFindings{Missing: []string{"pay"}, Present: []string{"unchanged"}},
			servicetest.Read[api.ListingFindings](s.Do(http.MethodGet, "/internal/v1/readings", "")))
		require.Len(t, servicetest.Read[api.EventList](s.get("/api/v1/opportunities/pay/history")).Data, 3,
			"two checks of the application link and the review")

		page := servicetest.Read[api.PageTexts](s.Do(http.MethodGet, "/operator/v1/records/pay/pages", "")).Pages[0]
		require.Contains(t, page.Text, "$18 per hour")
		require.Empty(t, page.ReviewedText, "the first review was recorded before any reading")
		require.Equal(t, http.StatusNotFound, s.Do(http.MethodGet, "/operator/v1/records/nothing/pages", "").Status)
		search := func(quotes ...api.Quote) servicetest.Response {
			return s.Do(http.MethodPost, "/operator/v1/reviews/quotes", api.QuoteSearch{Quotes: quotes})
		}
		found := servicetest.Read[api.QuoteFindings](search(api.Quote{SourceURL: page.URL, Exact: page.Text}))
		require.Equal(t, api.QuotePresent, found.Readings[0].Finding)
		require.Equal(t, http.StatusBadRequest, search(make([]api.Quote, api.MaxQuoteSearch+1)...).Status)
	})
}

func TestPagesAreReadNowUnderTheSameRules(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, database string) {
		s := start(t, database, newCatalog(t))
		site := newPageSite(t)
		site.set("/pay", text(payText))
		site.set("/apply", text(payText))
		s.catalog.list("pay", true, site.URL+"/apply")
		s.record(quotedLine("pay", site.URL+"/pay", now.Add(-2*time.Hour)))
		ask := func(id string) (due api.PagesDue) {
			t.Helper()
			a := s.Do(http.MethodPost, "/operator/v1/records/"+id+"/read", "", api.ActorHeader, "ann")
			require.Equal(t, http.StatusOK, a.Status, a.Body)
			return servicetest.Read[api.PagesDue](a)
		}
		off := ask("pay")
		require.Zero(t, off.Pages)
		require.Contains(t, off.Note, "Link checks are off")
		require.Contains(t, off.Note, "OPPORTUNITY_LINK_CHECKS=true")

		readPages(t, database, site, now.Add(-time.Hour))
		require.Equal(t, 1, site.requests["/pay"])
		require.Equal(t, api.PagesDue{Pages: 1, Note: "The next run of the link checker reads them."}, ask("pay"))
		readPages(t, database, site, now)
		require.Equal(t, []int{2, 2}, []int{site.requests["/pay"], site.requests["/apply"]}, "before their time of the day")
		require.Zero(t, ask("pay").Pages, "it was read a moment ago")
		readPages(t, database, site, now)
		require.Equal(t, 2, site.requests["/pay"])
		require.Equal(t, http.StatusNotFound,
			s.Do(http.MethodPost, "/operator/v1/records/nothing/read", "", api.ActorHeader, "ann").Status)
	})
}
