package servicetest

import (
	"context"
	"io"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

func quiet() (*telemetry.Telemetry, error) {
	return telemetry.Start(context.Background(), "test", telemetry.Config{LogOutput: io.Discard})
}

// NewSchema returns the schema of the migrations of a service.
func NewSchema(migrations fs.FS) *storetest.Schema {
	return storetest.NewSchema(func(url string) error {
		tel, err := quiet()
		if err != nil {
			return err
		}
		return database.Migrate(context.Background(), database.Config{URL: url, MaxConnections: 2}, tel, migrations)
	})
}

// OpenDatabase opens a database. It is closed after the test.
func OpenDatabase(t testing.TB, url string) *database.DB {
	t.Helper()
	tel, err := quiet()
	require.NoError(t, err)
	db, err := database.Open(database.Config{URL: url, MaxConnections: 4}, tel)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
