package storetest_test

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func open(url string) (*sql.DB, error) {
	if file, ok := strings.CutPrefix(url, "sqlite://"); ok {
		return sql.Open("sqlite", file)
	}
	return sql.Open("pgx", url)
}

func TestSchemaIsMigratedOnceAndItsDatabasesAreSeparate(t *testing.T) {
	var migrations, databases atomic.Int32
	schema := storetest.NewSchema(func(url string) error {
		migrations.Add(1)
		db, err := open(url)
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(context.Background(), "CREATE TABLE things (id text PRIMARY KEY)")
		return err
	})
	t.Run("databases", func(t *testing.T) {
		for range 2 {
			schema.OnBothDatabases(t, func(t *testing.T, url string) {
				databases.Add(1)
				db, err := open(url)
				require.NoError(t, err)
				defer db.Close()
				_, err = db.ExecContext(t.Context(), "INSERT INTO things VALUES ('the same in each')")
				require.NoError(t, err)
			})
		}
	})
	require.Equal(t, databases.Load()/2, migrations.Load(), "one migration for the two databases of each dialect")
}
