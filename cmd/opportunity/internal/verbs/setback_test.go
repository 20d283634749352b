package verbs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/catalog"
	"opportunity.internal/services/history"
)

// ann decides to accept a loss.
var ann = service.Recovery{Operator: "ann"}

// callerHeader has a caller with full access.
var callerHeader = []string{api.CallerHeader, `{"tier":"commercial","pageSize":100,"history":true}`}

// pair is a catalog and a history that follow each other.
type pair struct {
	t                testing.TB
	clock            *servicetest.Clock
	history, catalog *servicetest.Service // nil while stopped
	historyAt        history.Config
	catalogAt        catalog.Config
}

// onPairs runs a test on pairs with Postgres and with SQLite. Listings a, b and c are published; a
// and b have a review.
func onPairs(t *testing.T, test func(t *testing.T, p *pair)) {
	for dialect, create := range map[string]func(testing.TB) string{"postgres": storetest.Postgres,
		"sqlite": storetest.SQLite} {
		t.Run(dialect, func(t *testing.T) {
			p := &pair{t: t, clock: servicetest.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
			p.historyAt = history.Config{
				Database: database.Config{URL: create(t), MaxConnections: 5, AllowOwner: true},
				Tokens:   servicetest.Tokens(peer.History), Callers: servicetest.Callers(peer.History),
				PublicURL: servicetest.PublicURL, CatalogURL: "http://" + storetest.FreeAddress(t), Now: p.clock.Now,
				Telemetry: telemetry.Config{LogOutput: io.Discard},
			}
			p.historyAt.Proof.SigningKeys = []string{strings.Repeat("01", 32)}
			p.catalogAt = catalog.Config{
				Database: database.Config{URL: create(t), MaxConnections: 5, AllowOwner: true},
				Tokens:   servicetest.Tokens(peer.Catalog), Callers: servicetest.Callers(peer.Catalog),
				PublicURL: servicetest.PublicURL, HistoryURL: "http://" + storetest.FreeAddress(t), Now: p.clock.Now,
				Telemetry: telemetry.Config{LogOutput: io.Discard},
			}
			require.NoError(t, history.Migrate(t.Context(), p.historyAt))
			require.NoError(t, catalog.Migrate(t.Context(), p.catalogAt))
			p.startHistory()
			p.startCatalog()
			p.history.WaitReady()
			p.catalog.WaitReady()
			p.importListings("a", "b", "c")
			p.record("a", api.OutcomeVerified)
			p.record("b", api.OutcomeVerified)
			p.waitFor("a", api.Verified)
			p.waitFor("b", api.Verified)
			test(t, p)
		})
	}
}

// start starts a service at its fixed address.
func (p *pair) start(name, url string, serve func(context.Context, server.Config, telemetry.Config) error,
) *servicetest.Service {
	s := servicetest.Start(p.t, name, func(ctx context.Context, at server.Config, tel telemetry.Config) error {
		require.NoError(p.t, at.Listener.Close())
		at.Listener, at.Listen = nil, strings.TrimPrefix(url, "http://")
		return serve(ctx, at, tel)
	})
	s.URL = url
	return s
}

func (p *pair) startHistory() {
	p.history = p.start(peer.History, p.catalogAt.HistoryURL,
		func(ctx context.Context, at server.Config, tel telemetry.Config) error {
			cfg := p.historyAt
			cfg.Server, cfg.Telemetry = at, tel
			return history.Run(ctx, cfg)
		})
}

func (p *pair) startCatalog() {
	p.catalog = p.start(peer.Catalog, p.historyAt.CatalogURL,
		func(ctx context.Context, at server.Config, tel telemetry.Config) error {
			cfg := p.catalogAt
			cfg.Server, cfg.Telemetry = at, tel
			return catalog.Run(ctx, cfg)
		})
}

func (p *pair) importListings(ids ...string) {
	p.t.Helper()
	var file strings.Builder
	for _, id := range ids {
		file.WriteString(strings.ReplaceAll(listingLine, "ID", id) + "\n")
	}
	require.True(p.t, servicetest.Read[api.ImportReport](p.catalog.Do(http.MethodPost, "/operator/v1/listings/import",
		file.String())).Applied)
}

// record records a review now, and moves the clock.
func (p *pair) record(slug string, outcome api.Outcome) {
	p.t.Helper()
	e := apitest.Verified(slug, p.clock.Now())
	e.Outcome = outcome
	r := servicetest.Read[api.AppendReport](p.history.Do(http.MethodPost, "/operator/v1/events/append", apitest.Line(e)))
	require.True(p.t, r.Applied, "%+v", r)
	p.clock.Advance(time.Minute)
}

// status returns the status of a record that the catalog serves.
func (p *pair) status(slug string) api.VerificationStatus {
	p.t.Helper()
	r := p.catalog.Do(http.MethodGet, "/api/v1/opportunities/"+slug, nil, callerHeader...)
	if r.Status != http.StatusOK {
		return ""
	}
	var detail struct {
		Data struct{ Verification api.Verification }
	}
	require.NoError(p.t, json.Unmarshal([]byte(r.Body), &detail))
	return detail.Data.Verification.Status
}

func (p *pair) waitFor(slug string, want api.VerificationStatus) {
	p.t.Helper()
	storetest.Eventually(p.t, slug+" is "+string(want), func() bool { return p.status(slug) == want })
}

// checkpoint returns the checkpoint of the log that covers all events.
func (p *pair) checkpoint() string {
	p.t.Helper()
	storetest.Eventually(p.t, "the log covers all events",
		func() bool { return p.history.HasMetric("history_log_lag_seconds 0") })
	return p.history.Do(http.MethodGet, "/.well-known/opportunity-history/log/checkpoint", nil).Body
}

// verify returns the report of the verb verify. It fails unless the history matches exactly if want
// is true.
func (p *pair) verify(want bool, notes ...string) string {
	p.t.Helper()
	var args []string
	for _, note := range notes {
		file := filepath.Join(p.t.TempDir(), "checkpoint.txt")
		require.NoError(p.t, os.WriteFile(file, []byte(note), 0o600))
		args = append(args, "--against", file)
	}
	var out bytes.Buffer
	err := history.Verify(p.t.Context(), p.historyAt, args, &out)
	if want {
		require.NoError(p.t, err, out.String())
	} else {
		require.ErrorIs(p.t, err, history.ErrMismatch)
	}
	return out.String()
}

// backUpHistory returns a function that restores history's database.
func (p *pair) backUpHistory() (restore func()) {
	p.t.Helper()
	p.history.Stop()
	replace := storetest.Backup(p.t, p.historyAt.Database.URL)
	p.startHistory()
	p.history.WaitReady()
	return func() {
		p.t.Helper()
		p.history.Stop()
		replace()
		p.startHistory()
	}
}

// requireSetBack waits until the service s has noticed that its database was set back, and checks
// how it says so.
func requireSetBack(t *testing.T, s *servicetest.Service, store string) {
	t.Helper()
	storetest.Eventually(t, "set back", func() bool {
		return strings.Contains(servicetest.Send(t, http.MethodGet, s.OperationsURL+"/readyz", nil, nil).Body,
			api.SetBackCondition)
	})
	require.True(t, s.HasMetric(`store_set_back{store="`+store+`"} 1`))
	require.Equal(t, 1, strings.Count(s.Log.String(), `"msg":"database set back`), s.Log.String())
	require.Contains(t, s.Log.String(), `"lacks":"`)
}

func TestRestoredHistoryIsStoppedUntilTheLossIsAccepted(t *testing.T) {
	onPairs(t, func(t *testing.T, p *pair) {
		first := p.checkpoint()
		restore, restoreAgain := p.backUpHistory(), p.backUpHistory()
		p.record("a", api.OutcomeClosed)
		p.record("c", api.OutcomeVerified)
		p.waitFor("a", api.NeedsReview)
		p.waitFor("c", api.Verified)
		lost := p.checkpoint()
		complete := p.backUpHistory()
		restore()
		requireSetBack(t, p.history, "history")
		complete() // as by point-in-time recovery
		p.history.WaitReady()
		p.verify(true, lost)
		restoreAgain()

		requireSetBack(t, p.history, "history")
		p.history.Do(http.MethodGet, "/api/v1/opportunities/a/history", nil, callerHeader...).RequireError("service_unavailable")
		p.history.Do(http.MethodPost, "/operator/v1/events/append", apitest.Line(apitest.Verified("b", p.clock.Now()))).
			RequireError("service_unavailable", "was set back")
		links := p.historyAt
		links.Links.Contact = "https://operator.org/contact"
		require.ErrorIs(t, storetest.Err(history.CheckLinks(t.Context(), links)), setback.ErrSetBack,
			"the link checker appends, too")
		require.Contains(t, p.verify(false), "the catalog or a gateway has seen this event")
		require.Equal(t, api.NeedsReview, p.status("a"), "the catalog keeps what it has")
		require.Equal(t, api.Verified, p.status("c"))

		var out bytes.Buffer
		for _, step := range []string{"INSERT ON generations", "DELETE ON claims"} {
			end := servicetest.Crash(t, p.historyAt.Database.URL, step)
			err := history.Recover(t.Context(), p.historyAt, ann, &out)
			end()
			require.ErrorContains(t, err, "nothing was decided, run it again", step)
			p.history.Stop()
			p.startHistory()
			requireSetBack(t, p.history, "history")
		}
		require.NoError(t, history.Recover(t.Context(), p.historyAt, ann, &out))
		require.Contains(t, out.String(), "a generation begins")
		p.history.WaitReady()
		p.waitFor("a", api.Verified) // as history says
		p.waitFor("c", api.Unverified)
		require.Equal(t, api.Verified, p.status("b"))
		require.True(t, p.history.HasMetric(`store_set_back{store="history"} 0`))
		require.ErrorContains(t, history.Recover(t.Context(), p.historyAt, ann, &out),
			"nothing to decide")

		p.record("c", api.OutcomeClosed)
		p.waitFor("c", api.NeedsReview)
		next := p.checkpoint()
		require.Regexp(t, "^[^\n]+/2-[0-9a-f]{16}\n", next, "the log of a generation has its own name")
		p.verify(true, first, next)
		require.Contains(t, p.verify(false, lost), "events 4 to 4 are missing", "the break is provable")
	})
}

func TestRestoredCatalogIsStoppedUntilTheLossIsAccepted(t *testing.T) {
	onPairs(t, func(t *testing.T, p *pair) {
		p.catalog.Stop()
		restore := storetest.Backup(t, p.catalogAt.Database.URL)
		p.startCatalog()
		p.catalog.WaitReady()
		servicetest.Read[api.ImportReport](p.catalog.Do(http.MethodPost, "/operator/v1/listings/withdraw", `{"ids":["a"]}`))
		p.importListings("d")
		copied := func(slug string, want int) {
			t.Helper()
			storetest.Eventually(t, "history's copy of "+slug, func() bool {
				return p.history.Do(http.MethodGet, "/api/v1/opportunities/"+slug+"/history", nil, callerHeader...).Status == want
			})
		}
		copied("a", http.StatusNotFound)
		copied("d", http.StatusOK)
		p.catalog.Stop()
		restore()
		p.startCatalog()

		requireSetBack(t, p.catalog, "catalog")
		require.Empty(t, p.status("a"), "a withdrawn record must not be served again")
		copied("a", http.StatusNotFound)
		copied("d", http.StatusOK)

		for _, step := range []string{"INSERT ON generations", "DELETE ON claims", "INSERT ON claims"} {
			end := servicetest.Crash(t, p.catalogAt.Database.URL, step)
			err := catalog.Recover(t.Context(), p.catalogAt, ann, io.Discard)
			end()
			require.ErrorContains(t, err, "nothing was decided, run it again", step)
			p.catalog.Stop()
			p.startCatalog()
			requireSetBack(t, p.catalog, "catalog")
			require.Empty(t, p.status("a"))
		}
		// A crash after the decision and before history has said what was withdrawn: the next start
		// asks it, and needs no other decision.
		p.history.Stop()
		require.NoError(t, catalog.Recover(t.Context(), p.catalogAt, ann, io.Discard))
		p.catalog.Stop()
		p.startCatalog()
		requireSetBack(t, p.catalog, "catalog")
		require.Empty(t, p.status("a"))
		p.catalog.Stop()
		p.startHistory()
		p.history.WaitReady()
		p.startCatalog()
		p.catalog.WaitReady()
		require.Contains(t, p.catalog.Log.String(), "records kept withdrawn")
		require.Contains(t, p.catalog.Log.String(), `"listing_ids":["a"]`)
		copied("d", http.StatusNotFound)
		copied("b", http.StatusOK)
		require.Empty(t, p.status("a"), "it stays private until an operator decides")
		copied("a", http.StatusNotFound)
		servicetest.Read[api.ImportReport](p.catalog.Do(http.MethodPost, "/operator/v1/listings/publish", `{"ids":["a"]}`))
		p.waitFor("a", api.Verified)
		copied("a", http.StatusOK)
	})
}

const listingLine = `{"id":"ID","company":{"name":"Company ID","website":"https://ID.example/"},"applicationUrl":"https://ID.example/apply",` +
	`"category":"online","subcategory":"transcription","summary":"Pays for transcripts.","overview":"Paid by the minute.","startingCost":"None",` +
	`"workModel":"Independent contractor","visibility":"published","sources":[{"url":"https://ID.example/terms","checkedAt":"2026-11-18"}]}`
