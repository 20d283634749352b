package history_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
	"opportunity.internal/services/history/internal/linkcheck"
)

// site starts a server with the pages of the listings' links and counts its requests.
func site(t *testing.T) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch r.URL.Path {
		case "/robots.txt", "/gone":
			w.WriteHeader(http.StatusNotFound)
		case "/wall":
			w.WriteHeader(http.StatusForbidden)
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// linkEnvironment returns the settings for check-links, which may connect to the site on loopback.
func linkEnvironment(t *testing.T, database, site string) func(string) (string, bool) {
	t.Helper()
	u, err := url.Parse(site)
	require.NoError(t, err)
	settings := map[string]string{
		"OPPORTUNITY_DATABASE_URL": database, "OPPORTUNITY_PUBLIC_URL": servicetest.PublicURL,
		"OPPORTUNITY_LOG_LEVEL":                   "ERROR",
		"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS": "127.0.0.1/32", "OPPORTUNITY_LINK_CHECK_PORTS": u.Port(),
		"OPPORTUNITY_LINK_CHECK_GAP": "1ms",
	}
	return func(name string) (string, bool) {
		v, ok := settings[name]
		return v, ok
	}
}

func TestCheckLinksAppendsOutcomes(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, database string) {
		address, requests := site(t)
		c := newCatalog(t)
		cfg := config(database, c.URL)
		cfg.Now = time.Now // like the verb
		s := run(t, cfg, c)
		reviewed := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
		for i, id := range []string{"open", "gone", "wall", "moved", "candidate"} {
			c.change(func() {
				c.states = append(c.states, api.ListingState{
					Sequence: int64(i + 1), ID: id, Published: id != "candidate", ApplicationURL: address + "/" + id,
				})
			})
			s.record(line(id, reviewed.Format(time.RFC3339), api.FactualReview, api.OutcomeVerified))
		}
		check := func() error {
			return history.Main(t.Context(), linkEnvironment(t, database, address), []string{"check-links"})
		}
		require.NoError(t, check())

		summaries := map[string]api.Summary{}
		for _, sum := range apitest.Decoded(servicetest.Read[feed.Page[api.EncodedSummary]](s.get("/internal/v1/summaries")).Changes) {
			summaries[sum.Slug] = sum
		}
		for id, want := range map[string]struct {
			outcome api.Outcome
			status  api.VerificationStatus
			note    string
		}{
			"open": {api.OutcomeReachable, api.Verified, "Answered 200."},
			"gone": {api.OutcomeClosed, api.NeedsReview, "Answered 404."},
			"wall": {api.OutcomeBlocked, api.Verified, "Answered 403."},
			"moved": {api.OutcomeNeedsReview, api.NeedsReview,
				"Answered 302 with a redirect to " + address + "/, then answered 200. It leads to the home page."},
		} {
			events := servicetest.Read[api.EventList](s.get("/api/v1/opportunities/" + id + "/history")).Data
			require.Len(t, events, 2, "one event of the check in addition to the review")
			require.Equal(t, api.LinkCheck, events[0].CheckType)
			require.Equal(t, want.outcome, events[0].Outcome)
			require.Equal(t, want.note, events[0].Note)
			require.Equal(t, []string{address + "/" + id}, events[0].SourceURLs)
			require.Nil(t, events[0].Facts)

			sum := summaries[id]
			require.Equal(t, want.status, sum.StatusAt(nil, time.Now()), id)
			require.Equal(t, want.outcome, sum.ApplicationLink.Outcome)
			require.Equal(t, reviewed, *sum.LastCheckedAt, "a link check must not count as a review")
			require.Equal(t, reviewed.Add(api.FreshnessWindow), *sum.FreshUntil)
			require.Equal(t, 1, sum.ReviewCount)
			require.Equal(t, 2, sum.HistoryCount)
		}
		require.Nil(t, summaries["candidate"].ApplicationLink, "private listings must not be checked")
		require.Equal(t, int32(6), requests.Load(), "robots.txt, four links, the home page")

		require.NoError(t, check())
		require.Equal(t, int32(6), requests.Load(), "no link may be due again")

		text := s.Metrics()
		for _, outcome := range []string{"reachable", "closed", "blocked", "needs-review"} {
			require.Contains(t, text, `history_link_checks_total{outcome="`+outcome+`"} 1`)
		}
		require.Contains(t, text, `history_link_checks_total{outcome="unreachable"} 0`)
		for _, name := range []string{"history_link_run_duration_seconds ",
			"history_link_run_success_timestamp_seconds "} {
			require.Contains(t, text, name)
		}

		require.NoError(t, history.Main(t.Context(), func(name string) (string, bool) {
			settings := map[string]string{
				"OPPORTUNITY_DATABASE_URL": database, "OPPORTUNITY_PUBLIC_URL": servicetest.PublicURL,
				"OPPORTUNITY_CATALOG_URL": c.URL, "OPPORTUNITY_LOG_LEVEL": "ERROR",
			}
			v, ok := settings[name]
			return v, ok
		}, []string{"verify"}), "the events must match the log")
	})
}

func TestStoppedLinkCheckIsNoError(t *testing.T) {
	c := newCatalog(t)
	cfg := config(schema.SQLite(t), c.URL)
	cfg.Now = time.Now
	ctx, stop := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stop() }))
	defer server.Close()
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	require.NoError(t, err)
	s := run(t, cfg, c)
	for i, id := range []string{"a", "b"} {
		c.change(func() {
			c.states = append(c.states, api.ListingState{Sequence: int64(i + 1), ID: id, Published: true,
				ApplicationURL: server.URL + "/" + id})
		})
		s.record(line(id, "2026-11-01T09:00:00Z", api.FactualReview, api.OutcomeVerified))
	}
	var log bytes.Buffer
	cfg.Telemetry.LogOutput = &log
	cfg.Links = linkcheck.Config{
		Gap: time.Millisecond, Concurrency: 1, Timeout: time.Minute, Ports: []uint16{uint16(port)}, TextDays: 1,
		AllowedNetworks: []string{"127.0.0.1/32"},
	}
	_, err = history.CheckLinks(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, log.String(), "link check stopped")
	require.NotContains(t, log.String(), "ERROR")
}

func TestCheckLinksNamesInvalidSettings(t *testing.T) {
	database := storetest.SQLite(t)
	with := func(changes map[string]string) error {
		lookup := linkEnvironment(t, database, "http://127.0.0.1:80")
		return history.Main(t.Context(), func(name string) (string, bool) {
			if v, ok := changes[name]; ok {
				return v, v != ""
			}
			return lookup(name)
		}, []string{"check-links"})
	}
	for setting, value := range map[string]string{
		"OPPORTUNITY_DATABASE_URL": "", "OPPORTUNITY_PUBLIC_URL": "",
		"OPPORTUNITY_LINK_CHECK_CONTACT": "mailto:me@maple.works",
		"OPPORTUNITY_LINK_CHECK_PORTS":   "https", "OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS": "127.0.0.1",
		"OPPORTUNITY_LINK_CHECK_CONCURRENCY": "0",
	} {
		require.ErrorContains(t, with(map[string]string{setting: value}), setting)
	}
	require.ErrorContains(t, with(map[string]string{"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS": ""}),
		"OPPORTUNITY_LINK_CHECK_GAP")
	require.ErrorIs(t, with(map[string]string{"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS": "",
		"OPPORTUNITY_LINK_CHECK_GAP": ""}), history.ErrNoContact,
		"a contact page on a reserved name is not public")
	require.ErrorContains(t, with(nil), "run migrate")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, history.Main(ctx, linkEnvironment(t, database, "http://127.0.0.1:80"), []string{"check-links"}))
}
