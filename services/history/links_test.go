package history_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
)

// linkEnvironment returns the settings for check-links, which may connect to the port on loopback.
func linkEnvironment(database string, port uint16) func(string) (string, bool) {
	settings := map[string]string{
		"OPPORTUNITY_DATABASE_URL": database, "OPPORTUNITY_PUBLIC_URL": servicetest.PublicURL,
		"OPPORTUNITY_LOG_LEVEL":                   "ERROR",
		"OPPORTUNITY_LINK_CHECK_ALLOWED_NETWORKS": "127.0.0.1/32", "OPPORTUNITY_LINK_CHECK_PORTS": fmt.Sprint(port),
		"OPPORTUNITY_LINK_CHECK_GAP": "1ms",
	}
	return func(name string) (string, bool) {
		v, ok := settings[name]
		return v, ok
	}
}

func TestCheckLinksAppendsOutcomes(t *testing.T) {
	schema.OnBothDatabases(t, func(t *testing.T, database string) {
		site, c := newPageSite(t), newCatalog(t)
		cfg := config(database, c.URL)
		cfg.Now = time.Now // like the verb
		s := run(t, cfg, c)
		reviewed := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
		for _, id := range []string{"gone", "candidate"} {
			c.list(id, id == "gone", site.URL+"/"+id)
			s.record(line(id, reviewed.Format(time.RFC3339), api.FactualReview, api.OutcomeVerified))
		}
		for range 2 { // nothing is due again
			require.NoError(t, history.Main(t.Context(), linkEnvironment(database, site.port()), []string{"check-links"}))
		}
		require.Equal(t, map[string]int{"/robots.txt": 1, "/gone": 1}, site.requests,
			"private listings must not be checked")

		event := servicetest.Read[api.EventList](s.get("/api/v1/opportunities/gone/history")).Data[0]
		event.ID, event.CheckedAt = "", time.Time{}
		require.Equal(t, api.VerificationEvent{Slug: "gone", CheckType: api.LinkCheck, Outcome: api.OutcomeClosed,
			SourceURLs: []string{site.URL + "/gone"}, Note: "Answered 404."}, event)
		text := s.Metrics()
		require.Contains(t, text, `history_link_checks_total{outcome="closed"} 1`)
		require.Contains(t, text, `history_link_checks_total{outcome="unreachable"} 0`)
		for _, name := range []string{"history_link_run_duration_seconds ",
			"history_link_run_success_timestamp_seconds "} {
			require.Contains(t, text, name)
		}
	})
}

func TestStoppedLinkCheckIsNoError(t *testing.T) {
	s := start(t, schema.SQLite(t), newCatalog(t))
	ctx, stop := context.WithCancel(t.Context())
	site := newPageSite(t)
	site.set("/robots.txt", func(http.ResponseWriter, *http.Request) { stop() })
	for _, id := range []string{"a", "b"} {
		s.catalog.list(id, true, site.URL+"/"+id)
		s.record(line(id, "2026-11-01T09:00:00Z", api.FactualReview, api.OutcomeVerified))
	}
	var log bytes.Buffer
	cfg := linkConfig(s.Database, site, now)
	cfg.Telemetry.LogOutput, cfg.Links.Concurrency = &log, 1
	_, err := history.CheckLinks(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, log.String(), "link check stopped")
	require.NotContains(t, log.String(), "ERROR")
}

func TestCheckLinksNamesInvalidSettings(t *testing.T) {
	database := storetest.SQLite(t)
	with := func(changes map[string]string) error {
		lookup := linkEnvironment(database, 80)
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
	require.Error(t, history.Main(ctx, linkEnvironment(database, 80), []string{"check-links"}))
}
