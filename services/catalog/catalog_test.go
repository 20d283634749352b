package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	catalog "opportunity.internal/services/catalog"
	"opportunity.internal/services/catalog/internal/listingtest"
	"opportunity.internal/services/catalog/internal/store"
)

func TestMain(m *testing.M) { servicetest.Main(m) }

var startTime = time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)

// service is a running catalog with a fake history service.
type service struct {
	*servicetest.Service

	t       testing.TB
	history *historyServer
	clock   *servicetest.Clock
}

var schema = servicetest.NewSchema(store.Migrations)

// start runs the catalog on a migrated database, and stops it at the end of the test.
func start(t testing.TB, databaseURL string) *service {
	t.Helper()
	s := &service{t: t, history: &historyServer{}, clock: servicetest.NewClock(startTime)}
	history := servicetest.NewPeer(s.history)
	t.Cleanup(history.Close)
	s.Service = servicetest.Start(t, peer.Catalog, func(ctx context.Context, server server.Config,
		telemetry telemetry.Config) error {
		return catalog.Run(ctx, catalog.Config{
			Server: server, Telemetry: telemetry, Database: database.Config{URL: databaseURL, MaxConnections: 4,
				AllowOwner: true},
			Tokens: servicetest.Tokens(peer.Catalog), Callers: servicetest.Callers(peer.Catalog),
			PublicURL: servicetest.PublicURL, HistoryURL: history.URL, Now: s.clock.Now,
		})
	})
	s.WaitReady()
	return s
}

// get sends a GET request of a consumer of the tier.
func (s *service) get(tier api.Tier, path string, headers ...string) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodGet, path, nil, append(headers, api.CallerHeader, caller(tier))...)
}

// caller returns the value of api.CallerHeader for a consumer of the tier.
func caller(tier api.Tier) string {
	for _, t := range api.Tiers {
		if t.Tier == tier {
			c, _ := json.Marshal(api.Caller{Tier: tier, PageSize: t.Limits.PageSize, History: t.Limits.History})
			return string(c)
		}
	}
	panic("unknown tier " + tier)
}

func (s *service) list(tier api.Tier, path string) api.OpportunityList {
	s.t.Helper()
	return servicetest.Read[api.OpportunityList](s.get(tier, path))
}

// curate posts an operator's request to change listings.
func (s *service) curate(path, body string) api.ImportReport {
	s.t.Helper()
	return servicetest.Read[api.ImportReport](s.Do(http.MethodPost, "/operator/v1/listings/"+path, body))
}

// export returns the lines of an export, without its header.
func (s *service) export() string {
	s.t.Helper()
	head, lines, _ := strings.Cut(s.exported(), "\n")
	require.JSONEq(s.t, `{"format":"opportunity-listings","version":1}`, head)
	return lines
}

func (s *service) exported() string {
	s.t.Helper()
	a := s.Do(http.MethodGet, "/operator/v1/listings/export", nil)
	require.Equal(s.t, http.StatusOK, a.Status)
	return a.Body
}

// load imports the records, adds their summaries to history's feed, and waits until all of them are
// served.
func (s *service) load(records []listingtest.Record) {
	s.t.Helper()
	var file bytes.Buffer
	for _, r := range records {
		file.Write(r.Line())
		if r.Summary != nil {
			s.history.add(*r.Summary)
		}
	}
	report := s.curate("import", file.String())
	require.True(s.t, report.Applied, "%v", report)
	s.awaitRecords(records)
}

// awaitRecords waits until every published record is served as expected at the clock's time.
func (s *service) awaitRecords(records []listingtest.Record) {
	s.t.Helper()
	want := listingtest.Published(records, s.clock.Now())
	storetest.Eventually(s.t, "records are served", func() bool {
		for _, o := range want {
			a := s.get(api.Commercial, "/api/v1/opportunities/"+o.ID)
			if a.Status != http.StatusOK || !strings.HasPrefix(a.Body, `{"data":`+encode(s.t, o)) {
				return false
			}
		}
		return s.list(api.Commercial, "/api/v1/opportunities").Pagination.Total == len(want)
	})
}

func encode(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return strings.TrimSpace(b.String())
}

// historyServer is a fake of the history service: its feed of summaries, and reviews.
type historyServer struct {
	mu        sync.Mutex
	summaries []api.Summary // in order of their sequence
	changed   chan struct{}
	down      bool

	events   map[string][]api.RecordedEvent // by slug, newest first
	findings api.ListingFindings
}

func (h *historyServer) wake() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// add appends a summary to the feed, with the next sequence.
func (h *historyServer) add(s api.Summary) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Sequence = int64(len(h.summaries) + 1)
	h.summaries = append(h.summaries, s)
	h.wake()
}

func (h *historyServer) setDown(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
	h.wake()
}

func (h *historyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/internal/v1/re") {
		h.serveReviews(w, r)
		return
	}
	authorized := r.Header.Get("Authorization") == "Bearer "+servicetest.Token(peer.Catalog)
	if r.URL.Path != "/internal/v1/summaries" || !authorized {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	page, err := feed.Source[api.EncodedSummary]{
		Verify:  func(context.Context, string, int64) (string, bool, error) { return "", false, nil },
		Changes: h.changes, Moved: h.moved,
	}.Serve(r, nil)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(page)
}

func (h *historyServer) changes(_ context.Context, after int64, limit int) ([]api.EncodedSummary, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return nil, errors.New("down")
	}
	rest := h.summaries[min(int(after), len(h.summaries)):]
	return apitest.Encoded(rest[:min(limit, len(rest))]...), nil
}

func (h *historyServer) moved() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}
