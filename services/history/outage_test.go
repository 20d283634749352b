package history_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

func TestOutageOfPostgresIs503AndServiceRecovers(t *testing.T) {
	database, address := storetest.ProxyTo(t, schema.Postgres(t))
	c := newCatalog(t)
	c.set("a", true)
	s := run(t, config(address, c.URL), c)
	s.record(line("a", "2026-11-01T00:00:00Z", api.FactualReview, api.OutcomeVerified))

	const path = "/api/v1/opportunities/a/history"
	before := s.get(path)
	tag := before.Header.Get("ETag")
	require.NotEmpty(t, tag)
	for state, begin := range map[string]func(){"cut": database.Cut, "stalled": database.Stall} {
		t.Run(state, func(t *testing.T) {
			begin()
			a := s.get(path, "If-None-Match", tag)
			a.RequireError("service_unavailable")
			require.Equal(t, "1", a.Header.Get("Retry-After"))
			require.Equal(t, http.StatusServiceUnavailable, s.get("/readyz").Status)
			s.Do(http.MethodGet, path, "", as(api.Free)...).RequireError("subscription_required")
			if state == "cut" {
				s.get("/internal/v1/summaries").RequireError("service_unavailable")
				s.Do(http.MethodPost, "/operator/v1/events/append",
					line("a", "2026-11-02T00:00:00Z", api.FactualReview,
						api.OutcomeClosed)).RequireError("service_unavailable")
			}
			database.Restore()
			storetest.Eventually(t, "the service recovers", func() bool { return s.get(path).Status == http.StatusOK })
			require.Equal(t, before.Body, s.get(path).Body, "the failed append must leave nothing")
		})
	}
}
