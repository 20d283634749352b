package desk_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/desk"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/redisdb/embedded"
	serverconfig "opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/gateway"
	"opportunity.internal/services/history"
)

// friday is the time at which the clock of the benchmark starts: a working day, for which the queue
// is levelled.
var friday = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// BenchmarkDesk requests pages of the desk, which reaches catalog and history through the gateway's
// admin listener. They have 100,000 listings and 1,000,000 events on Postgres.
func BenchmarkDesk(b *testing.B) {
	c := benchDesk(b)
	for name, path := range map[string]string{
		"queue": "/queue", "queue by text": "/queue?scope=all&text=Company+4711", "whole queue": "/queue?scope=all",
		"queue by reason": "/queue?scope=all&why=link-check", "records by holder": "/records?holder=ben",
		"freshness": "/freshness",
	} {
		b.Run(name, func(b *testing.B) {
			c.measure(b, func() { require.Equal(b, http.StatusOK, c.get(b, path).StatusCode) })
		})
	}
	b.Run("submit to next", func(b *testing.B) {
		page := c.get(b, "/next")
		c.measure(b, func() {
			form := unchanged(page.input(b, "review"))
			page = c.send(b, http.MethodPost, page.Request.URL.Path, form)
			require.Contains(b, page.body, "recorded: verified.")
		})
	})
}

// curator is a browser that is signed in to the desk.
type curator struct {
	http *http.Client
	base string
}

// measure reports the 95th percentile of the time that do takes.
func (c curator) measure(b *testing.B, do func()) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		do()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

func (c curator) get(b *testing.B, path string) response { return c.send(b, http.MethodGet, path, nil) }

func (c curator) send(b *testing.B, method, path string, form url.Values) response {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, c.base+path, strings.NewReader(form.Encode()))
	require.NoError(b, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := c.http.Do(r)
	require.NoError(b, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	return response{resp, string(body)}
}

// benchDesk starts catalog, history, gateway and desk on seeded databases, and signs in.
func benchDesk(b *testing.B) curator {
	b.Helper()
	began := time.Now()
	now := func() time.Time { return friday.Add(time.Since(began)) }
	databases := [2]database.Config{{URL: storetest.Postgres(b), MaxConnections: 10, AllowOwner: true},
		{URL: storetest.Postgres(b), MaxConnections: 10, AllowOwner: true}}
	listeners := [2]serverconfig.Config{}
	urls := [2]string{}
	for i := range listeners {
		listeners[i] = serverconfig.Config{Listener: servicetest.Listen(b), OperationsListener: servicetest.Listen(b),
			Drain: time.Second}
		urls[i] = "http://" + listeners[i].Listener.Addr().String()
	}
	quiet := telemetry.Config{LogOutput: io.Discard}
	catalogConfig := catalog.Config{
		Server: listeners[0], Telemetry: quiet, Database: databases[0], Tokens: servicetest.Tokens(peer.Catalog),
		Callers:   servicetest.Callers(peer.Catalog),
		PublicURL: servicetest.PublicURL, HistoryURL: urls[1], Now: now,
	}
	historyConfig := history.Config{
		Server: listeners[1], Telemetry: quiet, Database: databases[1], Tokens: servicetest.Tokens(peer.History),
		Callers:   servicetest.Callers(peer.History),
		PublicURL: servicetest.PublicURL, CatalogURL: urls[0], Now: now,
	}
	require.NoError(b, catalog.Migrate(b.Context(), catalogConfig))
	require.NoError(b, history.Migrate(b.Context(), historyConfig))
	seedDesk(b, databases[0], catalogSeed(b))
	seedDesk(b, databases[1], historySeed(b))

	redis, err := embedded.Start("127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(redis.Close)
	admin := servicetest.Listen(b)
	gatewayConfig := gateway.Config{
		Server: serverconfig.Config{Listener: servicetest.Listen(b), OperationsListener: servicetest.Listen(b),
			Drain: time.Second},
		Telemetry: quiet, Redis: redisdb.Config{URL: redis.URL()}, Tokens: servicetest.Tokens(peer.Gateway),
		AdminListener: admin,
		PublicURL:     servicetest.PublicURL, CatalogURL: urls[0], HistoryURL: urls[1], AuthquotaURL: "http://127.0.0.1:1",
		Peppers: []string{strings.Repeat("ab", 32)}, OperatorTokens: []string{"ann:publisher:" +
			annsToken}, ServiceCapacity: 1,
	}
	at := servicetest.Listen(b)
	d, err := desk.New(desk.Options{Listener: at, AdminURL: "http://" + admin.Addr().String(),
		Log: slog.New(slog.DiscardHandler), Now: now})
	require.NoError(b, err)
	run(b, func(ctx context.Context) error { return history.Run(ctx, historyConfig) })
	run(b, func(ctx context.Context) error { return catalog.Run(ctx, catalogConfig) })
	run(b, func(ctx context.Context) error { return gateway.Run(ctx, gatewayConfig) })
	run(b, d.Run)

	jar, err := cookiejar.New(nil)
	require.NoError(b, err)
	c := curator{&http.Client{Jar: secureJar{jar}}, "http://" + at.Addr().String()}
	operations := "http://" + listeners[0].OperationsListener.Addr().String()
	storetest.Eventually(b, "the catalog is ready",
		func() bool { return curator{c.http, operations}.get(b, "/readyz").StatusCode == http.StatusOK })
	require.Equal(b, http.StatusOK, c.send(b, http.MethodPost, "/sign-in", url.Values{"token": {annsToken}}).StatusCode)
	return c
}

// run runs a service until the benchmark ends.
func run(b *testing.B, serve func(context.Context) error) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	b.Cleanup(func() {
		stop()
		require.NoError(b, <-ended)
	})
}

func seedDesk(b *testing.B, cfg database.Config, statements []string) {
	b.Helper()
	tel, err := telemetry.Start(b.Context(), "bench", telemetry.Config{LogOutput: io.Discard})
	require.NoError(b, err)
	db, err := database.Open(cfg, tel)
	require.NoError(b, err)
	defer db.Close()
	for _, statement := range append(statements, "VACUUM ANALYZE") {
		require.NoError(b, db.Exec(statement).Error)
	}
}

// The reviews are spread over 17 days, so that three of 17 records are due. Record n has the events
// with the sequences n, n+100000, and so on; the last of them is a review, and every 97th record
// had a failing link after it.
const (
	reviewedAt = `((1795168800 - 86400 - n * 7919 % 100000 * 14.688 * 0.99)::bigint)`
	isoTime    = `to_char(to_timestamp(%) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
	records    = ` FROM generate_series(0, 99999) n`
)

func iso(seconds string) string { return strings.ReplaceAll(isoTime, "%", seconds) }

// facts of each record.
func seededFacts() *api.Facts {
	f := api.UnknownFacts()
	f.Remote = ptr(true)
	f.Pay = &api.Pay{Minimum: 17.5, Maximum: 20, Currency: "CAD", Unit: api.PerHour, SourceURL: rates}
	return &f
}

// seededSummary returns an SQL expression for the summary of record n.
func seededSummary(b *testing.B) string {
	b.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	text, err := json.Marshal(api.Summary{
		Slug: "r-0", Sequence: 900000, LastEventID: "e-0", FirstCheckedAt: &at, LastCheckedAt: &at,
		LastOutcome: api.OutcomeVerified, FreshUntil: &at,
		ReviewCount: 1, HistoryCount: 10, Facts: seededFacts(),
	})
	require.NoError(b, err)
	return "'" + strings.NewReplacer(
		`"r-0"`, `"r-' || n || '"`, `900000`, `' || 900001 + n || '`, `"e-0"`, `"e-' || 900001 + n || '"`,
		`"freshUntil":"2026-01-01T00:00:00Z"`, `"freshUntil":"' || `+iso(reviewedAt+" + 14 * 86400")+` || '"`,
		`2026-01-01T00:00:00Z`, `' || `+iso(reviewedAt)+` || '`).Replace(string(text)) + "'"
}

func catalogSeed(b *testing.B) []string {
	b.Helper()
	listing := listingfile.Listing{
		ID: "r-0", Facts: seededFacts(), Sources: []api.Source{{URL: site}, {URL: rates}}, Platform: api.Platform{
			Company: api.Company{Name: "Company 0", Website: site}, ApplicationURL: site, Category: api.Online,
			Summary: "Pays freelancers.", Overview: strings.Repeat("An overview of the platform. ", 50),
		},
	}
	text, err := api.Encode(listing)
	require.NoError(b, err)
	document := "'" + strings.NewReplacer(`"r-0"`, `"r-' || n || '"`, `Company 0`,
		`Company ' || n || '`).Replace(string(text)) + "'"
	due := `(` + reviewedAt + ` + 14 * 86400)`
	return []string{
		`INSERT INTO listings (id, visibility, document, published_at, sequence, created_at, updated_at)
			SELECT 'r-' || n, CASE WHEN n % 10 = 0 THEN 'private' ELSE 'published' END, ` + document + `, 1, n + 1, 1, 1` + records,
		`INSERT INTO summaries SELECT 'r-' || n, 900001 + n, ` + seededSummary(b) + records,
		`INSERT INTO listing_index SELECT 'r-' || n, CASE WHEN n % 10 = 0 THEN 'private' ELSE 'published' END, 'online', 'Company ' || n,
			'company' || n, 'maple.example', 'r-' || n || ' company ' || n, ',', 2, 'unknown', 'reachable', 'verified', ` + due + ` * 1000000,
			CASE WHEN n % 97 = 0 THEN ',link-check,' ELSE ',stale,' END, '[{"why":"stale","at":"' || ` + iso(due) + ` || '"}]',
			` + reviewedAt + ` * 1000000, 0, 0` + records,
		`INSERT INTO leases SELECT 'r-' || n * 200 + 1, 'ben', 1, 9000000000000000 FROM generate_series(1, 400) n`,
		`INSERT INTO drafts SELECT 'r-' || n * 200 + 2, 'ann', '{}', 1 FROM generate_series(1, 400) n`,
		`INSERT INTO skips SELECT 'r-' || n * 200 + 3, 'ann', 'down', 1, 9000000000000000 FROM generate_series(1, 400) n`,
		`UPDATE change_sequence SET value = 100000`,
		`UPDATE feed_cursor SET position = 1000000`,
	}
}

func historySeed(b *testing.B) []string {
	b.Helper()
	facts, err := json.Marshal(seededFacts())
	require.NoError(b, err)
	return []string{
		`INSERT INTO verification_events SELECT n + 1, 'e-' || n + 1, 'r-' || n % 100000, 1780000000000000 + n, 'application-link', 'reachable',
			'[]', NULL, '', 'link-checker', 1780000000000000 + n, 'c' || n, 'p' || n, 'h' || n, '{}' FROM generate_series(0, 899999) n`,
		`INSERT INTO verification_events SELECT 900001 + n, 'e-' || 900001 + n, 'r-' || n, ` + reviewedAt + ` * 1000000, 'review', 'verified',
			'["` + site + `","` + rates + `"]', '` + string(facts) + `', '', 'bob', ` + reviewedAt + ` * 1000000, 'd' || n, 'q' || n, 'i' || n, '{}'` + records,
		`INSERT INTO summaries SELECT 'r-' || n, 900001 + n, 10, ` + seededSummary(b) + records,
		`INSERT INTO listings SELECT 'r-' || n, n + 1, n % 10 <> 0, '` + site + `', '[]'` + records,
		`UPDATE change_sequence SET value = 1000000`,
	}
}
