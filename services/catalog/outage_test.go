package catalog_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver pgx
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listingtest"
	"opportunity.internal/services/catalog/internal/snapshot"
)

// allowConnections makes a Postgres database reachable or unreachable.
func allowConnections(t *testing.T, databaseURL string, allow bool) {
	t.Helper()
	admin, err := sql.Open("pgx", os.Getenv(storetest.PostgresVariable))
	require.NoError(t, err)
	defer admin.Close()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	name := strings.TrimPrefix(u.Path, "/")
	_, err = admin.ExecContext(context.Background(),
		"ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS "+strconv.FormatBool(allow))
	require.NoError(t, err)
	_, err = admin.ExecContext(context.Background(),
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	require.NoError(t, err)
}

func TestDatabaseOutage(t *testing.T) {
	address := schema.Postgres(t)
	s := start(t, address)
	records := listingtest.Records(2, 30, startTime)
	s.load(records)
	allowConnections(t, address, false)
	defer allowConnections(t, address, true)

	s.clock.Set(startTime.Add(snapshot.MaxAge))
	require.Equal(t, ids(listingtest.Published(records, s.clock.Now())), ids(s.walk(api.Commercial, "/api/jobs")),
		"served from memory")
	a := s.Do(http.MethodPost, "/operator/v1/listings/import", listingLine("new", ""))
	require.Equal(t, http.StatusServiceUnavailable, a.Status)
	require.Equal(t, "1", a.Header.Get("Retry-After"))
	require.NotContains(t, a.Body, "test_", "must not contain the driver's error")
	require.Equal(t, http.StatusServiceUnavailable, s.Do(http.MethodGet, "/operator/v1/listings/export", nil).Status)

	s.clock.Set(startTime.Add(snapshot.MaxAge + time.Microsecond))
	for _, path := range []string{"/api/jobs", "/api/v1/opportunities/" + records[0].Entry.ID} {
		s.get(api.Commercial, path).RequireError(problem.ServiceUnavailable)
	}
	require.Equal(t, http.StatusOK, s.Do(http.MethodGet, "/readyz", nil).Status)

	allowConnections(t, address, true)
	storetest.Eventually(t, "the list is served again",
		func() bool { return s.get(api.Commercial, "/api/jobs").Status == http.StatusOK })
	require.True(t, s.curate("import", listingLine("new", "")).Applied)
}

func TestHistoryOutage(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.history.setDown(true)
		records := listingtest.Records(6, 20, startTime)
		for i := range records {
			records[i].Summary = nil
		}
		s.load(records)
		at := startTime.Add(-time.Hour)
		for i := range records {
			records[i].Summary = &api.Summary{
				Slug: records[i].Entry.ID, LastCheckedAt: &at, FirstCheckedAt: &at, ReviewCount: 1, HistoryCount: 1,
				LastOutcome: api.OutcomeVerified,
			}
			s.history.add(*records[i].Summary)
		}
		s.history.add(api.Summary{Slug: "not-imported-yet", LastCheckedAt: &at, ReviewCount: 1,
			LastOutcome: api.OutcomeClosed})
		s.history.setDown(false)
		s.awaitRecords(records)

		s.curate("import", listingLine("not-imported-yet", `,"visibility":"published"`))
		storetest.Eventually(t, "a summary received before its listing applies", func() bool {
			a := s.get(api.Commercial, "/api/v1/opportunities/not-imported-yet")
			return a.Status == http.StatusOK &&
				servicetest.Read[api.OpportunityDetail](a).Data.Verification.Status == api.NeedsReview
		})
	})
}
