package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	catalog "opportunity.internal/services/catalog"
	"opportunity.internal/services/catalog/internal/oracle"
)

const (
	token  = "an-internal-token-of-32-characters-or-more"
	public = "https://api.example"
)

var startTime = time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)

// service is a running catalog with a fake history service.
type service struct {
	t       testing.TB
	url     string
	metrics string
	history *historyServer
	clock   *clock
	logs    *logBuffer
}

var schema = storetest.NewSchema(func(url string) error {
	return catalog.Migrate(context.Background(), catalog.Config{
		Telemetry: telemetry.Config{LogOutput: io.Discard}, Database: database.Config{URL: url, MaxConnections: 2, AllowOwner: true},
	})
})

// start runs the catalog on a migrated database, and stops it at the end of the test.
func start(t testing.TB, databaseURL string) *service {
	t.Helper()
	s := &service{t: t, history: &historyServer{}, clock: &clock{at: startTime}, logs: &logBuffer{}}
	peerServer := httptest.NewServer(s.history)
	t.Cleanup(peerServer.Close)
	service, operations := listen(t), listen(t)
	s.url, s.metrics = "http://"+service.Addr().String(), "http://"+operations.Addr().String()+"/metrics"
	cfg := catalog.Config{
		Server:    server.Config{Listener: service, OperationsListener: operations, Drain: time.Second},
		Telemetry: telemetry.Config{LogOutput: s.logs},
		Database:  database.Config{URL: databaseURL, MaxConnections: 4, AllowOwner: true},
		Tokens:    peer.Tokens{Values: []string{token}},
		PublicURL: public, HistoryURL: peerServer.URL, Now: s.clock.Now,
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- catalog.Run(ctx, cfg) }()
	t.Cleanup(func() {
		stop()
		s.history.close()
		require.NoError(t, <-ended)
	})
	storetest.Eventually(t, "ready", func() bool { return s.do(http.MethodGet, "/readyz", "", nil).status == http.StatusOK })
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (s *service) do(method, path, body string, header http.Header) response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	for name, values := range header {
		r.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return response{resp.StatusCode, resp.Header, b}
}

// get sends a GET request with the caller header of the tier.
func (s *service) get(tier api.Tier, path string) response {
	s.t.Helper()
	return s.do(http.MethodGet, path, "", callerHeader(tier))
}

func callerHeader(tier api.Tier) http.Header {
	for _, t := range api.Tiers {
		if t.Tier == tier {
			c, _ := json.Marshal(api.Caller{Tier: tier, PageSize: t.Limits.PageSize, History: t.Limits.History})
			return http.Header{api.CallerHeader: {string(c)}}
		}
	}
	panic("unknown tier " + tier)
}

func (s *service) list(tier api.Tier, path string) api.OpportunityList {
	s.t.Helper()
	a := s.get(tier, path)
	require.Equal(s.t, http.StatusOK, a.status, "%s: %s", path, a.body)
	return decode[api.OpportunityList](s.t, a.body)
}

// curate posts an operator's request to change listings.
func (s *service) curate(path, body string) api.ImportReport {
	s.t.Helper()
	a := s.do(http.MethodPost, "/operator/v1/listings/"+path, body, http.Header{api.ActorHeader: {"alex"}})
	require.Equal(s.t, http.StatusOK, a.status, string(a.body))
	return decode[api.ImportReport](s.t, a.body)
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
	a := s.do(http.MethodGet, "/operator/v1/listings/export", "", http.Header{api.ActorHeader: {"alex"}})
	require.Equal(s.t, http.StatusOK, a.status)
	return string(a.body)
}

// load imports the records, adds their summaries to history's feed, and waits until all of them are served.
func (s *service) load(records []oracle.Record) {
	s.t.Helper()
	var file bytes.Buffer
	for _, r := range records {
		file.Write(r.Line())
		if r.Summary != nil {
			s.history.add(*r.Summary)
		}
	}
	require.True(s.t, s.curate("import", file.String()).Applied)
	s.awaitRecords(records)
}

// awaitRecords waits until every published record is served as expected at the clock's time.
func (s *service) awaitRecords(records []oracle.Record) {
	s.t.Helper()
	want := oracle.Published(records, s.clock.Now())
	storetest.Eventually(s.t, "records are served", func() bool {
		for _, o := range want {
			a := s.get(api.Commercial, "/api/v1/opportunities/"+o.ID)
			if a.status != http.StatusOK || !bytes.HasPrefix(a.body, append([]byte(`{"data":`), encode(s.t, o)...)) {
				return false
			}
		}
		return s.list(api.Commercial, "/api/v1/opportunities").Pagination.Total == len(want)
	})
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return bytes.TrimSpace(b.Bytes())
}

func decode[T any](t testing.TB, b []byte) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&v), string(b))
	return v
}

// clock is a manual clock.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

// historyServer is a fake of the history service: its feed of summaries, and reviews.
type historyServer struct {
	mu          sync.Mutex
	summaries   []api.Summary // in order of their sequence
	changed     chan struct{}
	down        bool
	closed      bool
	rulesBehind int // number of versions between its rules and the current ones

	events map[string][]api.RecordedEvent // by slug, newest first
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

func (h *historyServer) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.wake()
}

func (h *historyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/internal/v1/re") {
		h.serveReviews(w, r)
		return
	}
	if r.URL.Path == api.SeenPath {
		_ = json.NewEncoder(w).Encode(api.Seen{})
		return
	}
	if r.URL.Path != "/internal/v1/summaries" || r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	for {
		h.mu.Lock()
		if h.down {
			h.mu.Unlock()
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		feed := api.SummaryFeed{Rules: api.SummaryRules - h.rulesBehind, Summaries: []api.EncodedSummary{}}
		if after < len(h.summaries) {
			feed.Summaries = apitest.Encoded(h.summaries[after:min(after+100, len(h.summaries))]...)
		}
		if len(feed.Summaries) > 0 || h.closed {
			h.mu.Unlock()
			_ = json.NewEncoder(w).Encode(feed)
			return
		}
		if h.changed == nil {
			h.changed = make(chan struct{})
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// logBuffer is a buffer that is safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
