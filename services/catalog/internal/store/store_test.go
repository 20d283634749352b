package store_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/catalog/internal/store"
	"opportunity.internal/services/catalog/migrations"
)

// open makes the schema in a fresh database.
func open(t testing.TB, url string) *store.Store {
	t.Helper()
	cfg := database.Config{URL: url, MaxConnections: 4}
	tel, err := telemetry.Start(context.Background(), "catalog", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	require.NoError(t, database.Migrate(context.Background(), cfg, tel, migrations.Files))
	db, err := database.Open(cfg, tel)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return store.New(db, time.Now)
}
