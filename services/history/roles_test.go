package history_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// TestRolesOfTheDocumentation runs the SQL of docs/operators/running.md, and the service with its
// roles.
func TestRolesOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/operators/running.md")
	require.NoError(t, err)
	blocks := sqlBlock.FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 1)
	database := storetest.Postgres(t)
	admin, err := sql.Open("pgx", database)
	require.NoError(t, err)
	_, err = admin.ExecContext(t.Context(), blocks[0][1])
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.Background(),
			"DROP OWNED BY history_owner, history_serve; DROP ROLE history_owner, history_serve")
		require.NoError(t, errors.Join(err, admin.Close()))
	})
	as := func(role string) string {
		u, err := url.Parse(database)
		require.NoError(t, err)
		u.User = url.UserPassword(role, "choose-one")
		query := u.Query()
		query.Set("search_path", "history")
		u.RawQuery = query.Encode()
		return u.String()
	}
	catalog := newCatalog(t)
	cfg := config(as("history_owner"), catalog.URL)
	cfg.Database.ServingRole = "history_serve"
	require.NoError(t, history.Migrate(t.Context(), cfg))
	cfg = config(as("history_serve"), catalog.URL)
	cfg.Database.AllowOwner = false
	s := run(t, cfg, catalog)
	s.WaitReady()
	catalog.set("a", true)
	s.record(line("a", "2026-11-19T10:00:00Z", api.FactualReview, api.OutcomeVerified))
}
