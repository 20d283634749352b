package linkcheck_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/history/internal/linkcheck"
	"opportunity.internal/services/history/internal/store"
)

const (
	gap         = 5 * time.Second
	concurrency = 16
)

// internet responds to every request after a delay and checks that the client respects the limits
// for each host. It runs in a synctest bubble, where days pass immediately.
type internet struct {
	t          testing.TB
	rules      string                                                            // robots.txt of every host; empty: 404
	respond    func(r *http.Request) (status int, header http.Header, err error) // to others; nil: always 200
	unresolved func(host string) bool                                            // that has no address; nil: none
	latency    func(r *http.Request) time.Duration                               // nil: up to a second

	mu       sync.Mutex
	busy     map[string]bool
	ended    map[string]time.Time
	gaps     map[string]time.Duration // of hosts with a larger gap
	now      int                      // requests under way
	most     int
	requests map[string][]time.Time // address -> when
	robots   int
}

func newInternet(t testing.TB) *internet {
	return &internet{t: t, busy: map[string]bool{}, ended: map[string]time.Time{}, gaps: map[string]time.Duration{},
		requests: map[string][]time.Time{}}
}

func (n *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	n.mu.Lock()
	if n.busy[host] {
		n.t.Errorf("two requests to %s at one time", host)
	}
	least := max(gap, n.gaps[host])
	if last, ok := n.ended[host]; ok && time.Since(last) < least {
		n.t.Errorf("%s got another request after %s", host, time.Since(last))
	}
	n.busy[host] = true
	n.now++
	n.most = max(n.most, n.now)
	if r.URL.Path == "/robots.txt" {
		n.robots++
	} else {
		n.requests[r.URL.String()] = append(n.requests[r.URL.String()], time.Now())
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.busy[host], n.ended[host] = false, time.Now()
		n.now--
	}()
	took := time.Duration(hash(r.URL.String())%1000) * time.Millisecond
	if n.latency != nil {
		took = n.latency(r)
	}
	select {
	case <-time.After(took):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	code, header, body := 200, http.Header{}, ""
	if n.unresolved != nil && n.unresolved(r.URL.Host) {
		return nil, &net.OpError{Op: "dial",
			Err: &net.DNSError{Err: "server misbehaving", Name: r.URL.Host, IsTemporary: true}}
	}
	if r.URL.Path == "/robots.txt" {
		if body = n.rules; body == "" {
			code = 404
		}
	} else if n.respond != nil {
		var err error
		if code, header, err = n.respond(r); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r},
		nil
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

func (n *internet) checker() *linkcheck.Checker {
	n.t.Helper()
	c, err := linkcheck.New(linkcheck.Config{
		Contact: "https://api.checks.works/docs/link-checker", Gap: gap, Concurrency: concurrency,
		Timeout: 20 * time.Second,
		Ports:   []uint16{80, 443},
	}, n, time.Now)
	require.NoError(n.t, err)
	return c
}

// times returns the times of the requests to a URL.
func (n *internet) times(address string) []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests[address]
}

// testStore is the store of a run.
type testStore struct {
	*store.Store
	db *database.DB
}

const (
	claiming  = "INSERT INTO link_checks"
	recording = "SET recorded_at"
)

// before calls do before each statement with a text, with their number so far. The statement fails
// if do does.
func (k *testStore) before(t testing.TB, text string, do func(n int64) error) {
	t.Helper()
	var n atomic.Int64
	require.NoError(t, k.db.Callback().Raw().Before("*").Register(text, func(tx *gorm.DB) {
		if strings.Contains(tx.Statement.SQL.String(), text) {
			_ = tx.AddError(do(n.Add(1)))
		}
	}))
}

// fails makes the first statements with a text fail, as in an outage.
func (k *testStore) fails(t testing.TB, text string, statements int64) {
	t.Helper()
	k.before(t, text, func(n int64) error {
		if n <= statements {
			return errors.New("database unavailable")
		}
		return nil
	})
}

var schema = servicetest.NewSchema(store.Migrations)

// onBoth runs a test on a migrated store of each dialect. The test must call open inside a bubble.
func onBoth(t *testing.T, test func(t *testing.T, open func(t testing.TB) *testStore)) {
	t.Helper()
	on(t, map[string]string{"postgres": schema.Postgres(t), "sqlite": schema.SQLite(t)}, test)
}

// on is like onBoth for the given databases.
func on(t *testing.T, databases map[string]string, test func(t *testing.T, open func(t testing.TB) *testStore)) {
	t.Helper()
	for name, url := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // with the other dialect; each has its own database
			tel, err := telemetry.Start(t.Context(), "history", telemetry.Config{LogOutput: io.Discard})
			require.NoError(t, err)
			cfg := database.Config{URL: url, MaxConnections: 4}
			test(t, func(t testing.TB) *testStore {
				db, err := database.Open(cfg, tel)
				require.NoError(t, err)
				t.Cleanup(func() { _ = db.Close() })
				return &testStore{store.New(db), db}
			})
		})
	}
}

// publish publishes listings, given as pairs of slug and link.
func (k *testStore) publish(t testing.TB, pairs ...string) {
	t.Helper()
	var states []api.ListingState
	for i := 0; i < len(pairs); i += 2 {
		states = append(states, api.ListingState{Sequence: int64(i + 1), ID: pairs[i], Published: true,
			ApplicationURL: pairs[i+1]})
	}
	require.NoError(t, store.NewListings(k.db).Save(context.Background(), feed.Cursor{}, states, feed.Cursor{}))
}

// link returns the last event of slug and the number of its events.
func (k *testStore) link(t testing.TB, slug string) (api.VerificationEvent, int) {
	t.Helper()
	page, _, err := store.New(k.db).History(context.Background(), slug, 0, 1)
	require.NoError(t, err)
	if page.Total == 0 {
		return api.VerificationEvent{}, 0
	}
	return page.Events[0], page.Total
}

// many returns listings spread over hosts, as pairs of slug and link.
func many(listings, hosts int) (pairs []string) {
	for i := range listings {
		pairs = append(pairs, fmt.Sprintf("listing-%d", i), fmt.Sprintf("https://jobs-%d.works/apply/%d", i%hosts, i))
	}
	return pairs
}
