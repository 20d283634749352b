package history_test

import (
	"context"
	"encoding/json"
	"io"
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
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history"
	"opportunity.internal/services/history/internal/store"
)

func TestMain(m *testing.M) { servicetest.Main(m) }

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
	c.Server = servicetest.NewPeer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *catalog) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		return
	}
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	wait, errWait := time.ParseDuration(r.URL.Query().Get("wait"))
	if r.URL.Path != "/internal/v1/listings" ||
		r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.History) || err != nil || errWait != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	for {
		c.mu.Lock()
		failing, mute, changed, page := c.failing, c.noPolls && wait > 0, c.changed,
			feed.Page[api.ListingState]{Changes: []api.ListingState{}}
		for _, s := range c.states {
			if s.Sequence > after && !mute && len(page.Changes) < 2 { // small pages, so that catching up needs several
				page.Changes = append(page.Changes, s)
			}
		}
		c.mu.Unlock()
		switch {
		case failing:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case len(page.Changes) > 0 || wait == 0:
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
func (c *catalog) set(id string, published bool) { c.list(id, published, "https://a.example") }

// list sets the state of one listing with an application link.
func (c *catalog) list(id string, published bool, link string) {
	c.change(func() {
		next := int64(1)
		others := c.states[:0:0]
		for _, s := range c.states {
			next = max(next, s.Sequence+1)
			if s.ID != id {
				others = append(others, s)
			}
		}
		c.states = append(others, api.ListingState{Sequence: next, ID: id, Published: published, ApplicationURL: link})
	})
}

func (c *catalog) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// instance is a running history service.
type instance struct {
	*servicetest.Service

	Database string

	t       testing.TB
	catalog *catalog
}

// start runs the service on a migrated database.
func start(t testing.TB, database string, c *catalog) *instance {
	t.Helper()
	return run(t, config(database, c.URL), c)
}

func config(url, catalogURL string) history.Config {
	return history.Config{
		Database: database.Config{URL: url, MaxConnections: 4, AllowOwner: true},
		Tokens:   servicetest.Tokens(peer.History), Callers: servicetest.Callers(peer.History),
		Telemetry: telemetry.Config{LogOutput: io.Discard},
		PublicURL: servicetest.PublicURL, CatalogURL: catalogURL, Now: func() time.Time { return now },
	}
}

func run(t testing.TB, cfg history.Config, c *catalog) *instance {
	t.Helper()
	s := &instance{t: t, catalog: c, Database: cfg.Database.URL, Service: servicetest.Start(t, peer.History,
		func(ctx context.Context, server server.Config, telemetry telemetry.Config) error {
			cfg.Server, cfg.Telemetry = server, telemetry
			return history.Run(ctx, cfg)
		})}
	s.follow()
	return s
}

// follow makes the catalog see every event, as its copy of the summaries does.
func (s *instance) follow() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.t.Cleanup(func() { stop(); <-ended })
	client, mark := peer.New(s.URL, servicetest.Token(peer.Catalog), http.DefaultTransport), ""
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			var page feed.Page[api.EncodedSummary]
			if client.Get(ctx, "/internal/v1/summaries?after=0"+mark, &page) == nil && page.Mark != "" {
				mark = "&mark=" + page.Mark
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
}

var schema = servicetest.NewSchema(store.Migrations)

// onBoth runs a test with a service on each kind of database. It is for a few tests that together
// use every part of the service; what else differs between databases is tested beside the store.
func onBoth(t *testing.T, test func(t *testing.T, s *instance)) {
	t.Helper()
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, start(t, url, newCatalog(t))) })
}

// onSQLite runs a test with a service on SQLite, which starts faster than Postgres.
func onSQLite(t *testing.T, test func(t *testing.T, s *instance)) {
	t.Helper()
	t.Parallel()
	test(t, start(t, schema.SQLite(t), newCatalog(t)))
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

func (s *instance) get(path string, headers ...string) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodGet, path, "", append(as(api.Commercial), headers...)...)
}

func (s *instance) append(lines ...string) api.AppendReport {
	s.t.Helper()
	return servicetest.Read[api.AppendReport](s.Do(http.MethodPost, "/operator/v1/events/append",
		strings.Join(lines, "\n")))
}

// record appends lines, which must all be new.
func (s *instance) record(lines ...string) {
	s.t.Helper()
	require.Equal(s.t, api.AppendReport{Applied: true, Appended: len(lines), Rejected: []api.RejectedLine{}},
		s.append(lines...))
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
