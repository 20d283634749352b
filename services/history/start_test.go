package history_test

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
	"opportunity.internal/services/history"
)

const (
	token     = "a-token-of-at-least-thirty-two-characters"
	publicURL = "https://api.example"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// catalog is a fake of the catalog service.
type catalog struct {
	*httptest.Server

	mu      sync.Mutex
	states  []api.ListingState
	changed chan struct{} // closed by the next change
	noPolls bool          // long polls return nothing, so only requests without a wait see changes
	failing bool
}

func newCatalog(t testing.TB) *catalog {
	t.Helper()
	c := &catalog{changed: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *catalog) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		return
	}
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	wait, errWait := time.ParseDuration(r.URL.Query().Get("wait"))
	if r.URL.Path != "/internal/v1/listings" || r.Header.Get("Authorization") != "Bearer "+token || err != nil || errWait != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	for {
		c.mu.Lock()
		failing, mute, changed, page := c.failing, c.noPolls && wait > 0, c.changed, api.ListingFeed{Listings: []api.ListingState{}}
		for _, s := range c.states {
			if s.Sequence > after && !mute && len(page.Listings) < 2 { // small pages, so that catching up needs several
				page.Listings = append(page.Listings, s)
			}
		}
		c.mu.Unlock()
		switch {
		case failing:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case len(page.Listings) > 0 || wait == 0:
			_ = json.NewEncoder(w).Encode(page)
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// set sets the state of one listing.
func (c *catalog) set(id string, published bool) {
	c.change(func() {
		next := int64(1)
		others := c.states[:0:0]
		for _, s := range c.states {
			next = max(next, s.Sequence+1)
			if s.ID != id {
				others = append(others, s)
			}
		}
		c.states = append(others, api.ListingState{Sequence: next, ID: id, Published: published, ApplicationURL: "https://a.example"})
	})
}

func (c *catalog) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// service is a running history service.
type service struct {
	t       testing.TB
	URL     string
	catalog *catalog
	Stop    func() // drains and waits for the end of Run
}

// start runs the service on a migrated database.
func start(t testing.TB, database string, c *catalog) *service {
	t.Helper()
	cfg := config(t, database, c.URL)
	require.NoError(t, history.Migrate(t.Context(), cfg))
	return run(t, cfg, c)
}

func config(t testing.TB, url, catalogURL string) history.Config {
	t.Helper()
	return history.Config{
		Server: server.Config{Listener: listen(t), OperationsListener: listen(t), Drain: 20 * time.Second}, Telemetry: telemetry.Config{LogOutput: io.Discard},
		Database: database.Config{URL: url, MaxConnections: 10}, Tokens: peer.Tokens{Values: []string{token, "an-older-" + token}},
		PublicURL: publicURL, CatalogURL: catalogURL, Now: func() time.Time { return now },
	}
}

func run(t testing.TB, cfg history.Config, c *catalog) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- history.Run(ctx, cfg) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return &service{t: t, URL: "http://" + cfg.Server.Listener.Addr().String(), catalog: c, Stop: stop}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// onBoth runs a test with a service on each kind of database.
func onBoth(t *testing.T, test func(t *testing.T, s *service)) {
	t.Helper()
	for name, url := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) { test(t, start(t, url, newCatalog(t))) })
	}
}

// response is an HTTP response with its body.
type response struct {
	status int
	header http.Header
	body   string
}

// do sends a request with the internal token and further headers, given as pairs.
func (s *service) do(method, path, body string, headers ...string) response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(api.ActorHeader, "ada")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return response{resp.StatusCode, resp.Header, string(b)}
}

// as returns the header in which the gateway sends a caller of a tier.
func as(tier api.Tier) []string {
	for _, l := range api.Tiers {
		if l.Tier == tier {
			text, _ := json.Marshal(api.Caller{Tier: tier, PageSize: l.Limits.PageSize, History: l.Limits.History})
			return []string{api.CallerHeader, string(text)}
		}
	}
	panic("no such tier")
}

func (s *service) get(path string, headers ...string) response {
	s.t.Helper()
	return s.do(http.MethodGet, path, "", append(as(api.Commercial), headers...)...)
}

func decode[T any](t testing.TB, a response) T {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a.body)
	var out T
	in := json.NewDecoder(bytes.NewReader([]byte(a.body)))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&out))
	return out
}

func (s *service) requireError(a response, status int, code string) api.Error {
	s.t.Helper()
	require.Equal(s.t, status, a.status, a.body)
	var e api.Error
	require.NoError(s.t, json.Unmarshal([]byte(a.body), &e))
	require.Equal(s.t, code, e.Error.Code)
	require.Equal(s.t, publicURL+"/docs/errors#"+code, e.Documentation)
	return e
}

func (s *service) append(lines ...string) api.AppendReport {
	s.t.Helper()
	return decode[api.AppendReport](s.t, s.do(http.MethodPost, "/operator/v1/events/append", strings.Join(lines, "\n")))
}

// record appends lines, which must all be new.
func (s *service) record(lines ...string) {
	s.t.Helper()
	require.Equal(s.t, api.AppendReport{Applied: true, Appended: len(lines), Rejected: []api.RejectedLine{}}, s.append(lines...))
}

// line returns a line of an events file.
func line(slug, checkedAt string, kind api.CheckType, outcome api.Outcome) string {
	at, err := time.Parse(time.RFC3339Nano, checkedAt)
	if err != nil {
		panic(err)
	}
	e := apitest.Verified(slug, at)
	e.CheckType, e.Outcome, e.Note = kind, outcome, "checked"
	if kind == api.LinkCheck {
		e.Facts = nil
	}
	return apitest.Line(e)
}
